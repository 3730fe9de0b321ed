/** Hosts and buckets: one spelling for each, and none that URL parsers take for another. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { checkAuthority } from "../src/authorities.js";

const host = (text) => checkAuthority("http", text).authority;

for (const [text, normal] of [
  ["Example.ORG", "example.org"], ["h:80", "h"], ["h:", "h"], ["h:0080", "h"], ["h:443", "h:443"],
  ["h:00081", "h:81"], ["h:65535", "h:65535"], ["127.0.0.1", "127.0.0.1"], ["a.b.c-d", "a.b.c-d"],
  ["[::1]", "[::1]"], ["[0:0:0:0:0:0:0:1]:80", "[::1]"], ["[2001:DB8::]", "[2001:db8::]"],
  ["[::ffff:1.2.3.4]", "[::ffff:102:304]"], ["1.example", "1.example"], ["0xg", "0xg"], ["h.", "h."],
]) {
  test(`${text} is ${normal}`, () => assert.equal(host(text), normal));
}

for (const text of [
  "", ":80", "h:65536", "h:1x", "u@h", "h\u00e9", "a%62", "-h", "[1.2.3.4]", "[::1", "[fe80::1%25eth0]",
  "[:]", "127.1", "1", "0x7f.1", "0x7f000001", "2130706433", "0177.0.0.1", "127.0.0.01", "256.0.0.1",
  "1.2.3.4.5", "a.1", "a.0x", "1.2.3.4.", "1.2.3.",
]) {
  test(`${JSON.stringify(text)} is no host`, () => assert.equal(host(text), undefined));
}

test("what counts as an address is what the platform's URLs take for one", () => {
  const labels = ["", "0", "00", "1", "01", "255", "256", "0x", "0x7f", "0xg", "a", "1a", "x1"];
  for (const a of labels) {
    for (const b of labels) {
      for (const text of [b, `${a}.${b}`, `10.0.${a}.${b}`, `10.0.0.${a}.${b}`]) {
        const normal = host(text);
        if (normal !== undefined) assert.equal(new URL(`http://${text}/`).host, normal, text);
      }
    }
  }
});

test("a host is in its own normal form", () => {
  for (const text of ["Example.ORG:080", "[2001:DB8::0:1]:80", "127.0.0.1:8080"]) {
    assert.equal(host(host(text)), host(text));
  }
});

test("buckets and containers", () => {
  for (const [scheme, good] of [["s3", "my.bucket-1"], ["abfss", "c@account"], ["az", "c"], ["gs", "_b$"]]) {
    assert.deepEqual(checkAuthority(scheme, good), { authority: good });
  }
  for (const [scheme, bad] of [["s3", "b:1"], ["s3", "u@b"], ["abfs", "@a"], ["abfs", "c:p@a"], ["az", "c@a"], ["s3", ".b"]]) {
    assert.ok("wrong" in checkAuthority(scheme, bad));
  }
});

test("file URLs name no host but localhost", () => {
  assert.deepEqual(checkAuthority("file", ""), { authority: "" });
  assert.deepEqual(checkAuthority("file", "LOCALHOST"), { authority: "" });
  for (const other of ["h", "127.0.0.1", "localhost:80"]) assert.ok("wrong" in checkAuthority("file", other));
});
