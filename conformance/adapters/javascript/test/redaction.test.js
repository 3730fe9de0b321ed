/** What messages show of references: never a password, a signature or a token. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { ManifestError } from "../src/errors.js";
import { nodeLocation, parsePrefix, resolveObject } from "../src/locations.js";
import { redact } from "../src/redaction.js";

for (const [reference, shown] of [
  ["https://h/f.nc?sig=1", "https://h/f.nc?…"],
  ["f.nc#part", "f.nc#…"],
  ["https://h:80/f.nc", "https://h:80/f.nc"],
  ["abfs://container@account/f.nc", "abfs://container@account/f.nc"],
  ["a/b@c.nc", "a/b@c.nc"],
  ["s3://b/a@b.nc", "s3://b/a@b.nc"],
  ["/data/a@b.nc", "/data/a@b.nc"],
]) {
  test(`${reference} is shown as ${shown}`, () => assert.equal(redact(reference), shown));
}

test("no message shows a secret, wherever it stands in a reference", () => {
  for (const before of ["https://user:", "HTTPS://user:pa/", "https:user:", "https:/user:", "//user:", "s3://", "ftp://u:", "abfs://c:"]) {
    for (const after of ["@h/f.nc", "%40h/f.nc", "@h", "/x@h/f.nc", "@h/f.nc?x", "@h:99999/"]) {
      const reference = `${before}SECRET${after}`;
      for (const parse of [(text) => resolveObject(text, nodeLocation("a")), parsePrefix]) {
        try {
          parse(reference);
        } catch (error) {
          assert.ok(error instanceof ManifestError);
          assert.doesNotMatch(error.message, /SECRET/, reference);
        }
      }
    }
  }
  for (const reference of ["https://h/f?SECRET#", "a#SECRET", "s3://b/f?SECRET", "https://h/\\f?SECRET"]) {
    assert.throws(() => resolveObject(reference, nodeLocation("a")), ({ message }) => !message.includes("SECRET"));
  }
});
