/** Path resolution: the table of the specification, and what it refuses. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Allowed } from "../src/allowed.js";
import { display, nodeLocation, parseAbsolute, resolveBase, resolveObject, resolveOverride } from "../src/locations.js";

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
  ["./", "file:/d/f.nc", "file:///d/f.nc"],
  ["./", "http://[0:0::1]:80/f.nc", "http://[::1]/f.nc"],
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
  ["http://h/../f"], ["abfs://c:p@account/f"], ["memory://b/f"], ["http://[1.2.3.4]/f"], ["http://127.1/f"],
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

test("prefixes are normalised like locations", () => {
  for (const [prefix, url] of [
    ["HTTP://Example.ORG:80/a/./b/../", "http://example.org/a/f"],
    ["http://h/a%20b%2B", "http://h/a b+/f"],
    ["http://[0:0::1]:8080/", "http://[::1]:8080/f"],
    ["/data/x/../y", "file:///data/y/f"],
    ["file://localhost/data", "/data/f"],
    ["s3://b", "s3://b/f"],
  ]) {
    assert.equal(new Allowed([prefix]).find(parseAbsolute(url))?.prefix, prefix);
  }
  assert.equal(new Allowed(["gs://b"]).find(parseAbsolute("gcs://b/f")), null);
});

test("what is no prefix is refused", () => {
  for (const prefix of ["data", "", "http://h/?q", "http://h/?", "s3://b/#", "http://u@h/", "s3://b/..", "ftp://h/", "http://h/%2f"]) {
    refused(() => new Allowed([prefix]));
  }
});

test("the hierarchy's own URL is where redirects and links may lead, and no authorisation", () => {
  const home = { prefix: "https://h/data.zarr/", headers: {} };
  const allowed = new Allowed(["https://h/"], home);
  const inside = parseAbsolute("https://h/data.zarr/a/0");
  assert.equal(allowed.find(inside).prefix, "https://h/");
  assert.equal(allowed.findTarget(inside), home);
  assert.equal(new Allowed([], home).find(inside), null);
  assert.equal(new Allowed([], home).findTarget(parseAbsolute("https://h/data.zarr2/0")), null);
  assert.deepEqual(new Allowed(["/b", "s3://x"], { prefix: "file:///a/c/" }).roots, ["/a/c", "/b"]);
});

test("an override is a directory, below the hierarchy's root unless it is absolute", () => {
  for (const [override, path, location] of [
    ["data", "f.nc", "data/f.nc"],
    ["data/", "f.nc", "data/f.nc"],
    [".", "f.nc", "f.nc"],
    ["a/..", "f.nc", "f.nc"],
    ["s3://b/x", "f.nc", "s3://b/x/f.nc"],
    ["s3://b", "f.nc", "s3://b/f.nc"],
    ["http://h/x?q", "f.nc", "http://h/x/f.nc"],
    ["/data", "f.nc", "file:///data/f.nc"],
  ]) {
    assert.equal(display(resolveObject(path, resolveOverride(override))), location);
  }
  for (const override of ["", "//h/", "..", "a/../..", "data?q", "memory://x/"]) {
    refused(() => resolveOverride(override));
  }
});

test("a slash at the end of an override changes nothing", () => {
  for (const override of ["a", "a/b", "s3://b/x", "/d", "https://h/a%20b", "s3://b"]) {
    assert.deepEqual(resolveOverride(override), resolveOverride(`${override}/`));
  }
});
