/** Path resolution: the table of the specification, and what it refuses. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Allowed } from "../src/allowed.js";
import { display, nodeLocation, parseAbsolute, resolveBase, resolveObject } from "../src/locations.js";

const ARRAY = nodeLocation("a/sst");

function resolve(path, base = "./") {
  return display(resolveObject(path, resolveBase(base, ARRAY)));
}

const refused = (action) => assert.throws(action, { code: "invalid_path" });

for (const [base, path, location] of [
  ["./", "f.nc", "a/sst/f.nc"],
  ["../", "f%20g.nc", "a/f g.nc"],
  ["s3://b/x/", "../f.nc", "s3://b/f.nc"],
  ["s3://b/x", "f.nc", "s3://b/f.nc"],
  ["s3://b", "f.nc", "s3://b/f.nc"],
  ["s3://b/x/", "/data/f.nc", "file:///data/f.nc"],
  ["..", "f.nc", "a/f.nc"],
  ["./", "x/./y/../f.nc", "a/sst/x/f.nc"],
  ["./", "./a:b", "a/sst/a:b"],
  ["./", "a%3Ab", "a/sst/a:b"],
  ["./", "%2561", "a/sst/%61"],
  ["./", "FILE://LocalHost/d/f.nc", "file:///d/f.nc"],
  ["./", "HTTP://Example.ORG:80/F.nc", "http://example.org/F.nc"],
  ["./", "s3://b/x//f.nc", "s3://b/x//f.nc"],
  ["./", "wrf_d01_00:00.nc", "a/sst/wrf_d01_00:00.nc"],
  ["./", "abfs://c@account/f.nc", "abfs://c@account/f.nc"],
]) {
  test(`${path} on ${base} is ${location}`, () => assert.equal(resolve(path, base), location));
}

for (const [path, base] of [
  ["../../../f.nc"], ["%2e%2e/f.nc"], ["../f.nc", "s3://b/"], [""], ["//host/f.nc"], ["a\\b"],
  ["a#b"], ["a%"], ["a%2fb"], ["a%5Cb"], ["a%ff"], ["a%00"], ["a\u0007"], ["a\ud800"], ["a?b"],
  ["s3://b/f?versionId=1"], ["a/"], ["."], [".."], ["a//b"], ["ftp://h/f"], ["a:b"], ["s3://b//f.nc"], ["s3://-b/f"], ["http://h\u00e9/f"], ["http://h:99999/f"],
  ["s3:///f"], ["s3:f"], ["http://u:p@h/f"], ["file://host/f"], ["http://h"], ["http://h/"],
  ["http://h/../f"], ["abfs://c:p@account/f"],
]) {
  test(`${JSON.stringify(path)} is refused`, () => refused(() => resolve(path, base)));
}

test("a query belongs to http URLs, and escapes in it are left alone", () => {
  const location = resolveObject("f.nc?sig=a%2Fb", resolveBase("https://h/x/?old", ARRAY));
  assert.equal(location.query, "?sig=a%2Fb");
  assert.equal(display(location), "https://h/x/f.nc");
});

test("a prefix covers whole segments of the same scheme and authority", () => {
  const allowed = new Allowed(["s3://b/x/", { prefix: "s3://b/x/y", region: "longest" }]);
  const find = (url) => allowed.find(parseAbsolute(url));
  assert.equal(find("s3://b/x/f").prefix, "s3://b/x/");
  assert.equal(find("s3://b/x/y/f").region, "longest");
  assert.equal(find("s3://b/x/y").region, "longest");
  for (const other of ["s3://b/xy/f", "s3://b2/x/f", "gs://b/x/f", "s3://b/f", "s3://b/x/../f"]) {
    assert.equal(find(other), null);
  }
});
