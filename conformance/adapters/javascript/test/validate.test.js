/** Validators: everything that is invalid, each problem with its chunk, and nothing else. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { checkDocument } from "../src/document-problems.js";
import { storeHierarchy } from "../src/hierarchies.js";
import { DEFAULT_LIMITS } from "../src/index.js";
import { nodeLocation } from "../src/locations.js";
import { validate } from "../src/validate.js";
import { arrayMetadata } from "./arrays.js";

const LAYOUT = {
  shape: [4], chunkShape: [1], gridShape: [4], keyEncoding: { name: "default", separator: "/" },
};

function problemsOf(text, { limits = DEFAULT_LIMITS, partition = null } = {}) {
  const found = [];
  const context = { layout: LAYOUT, base: nodeLocation("a"), limits, partition };
  checkDocument(text, context, (error, chunk) => found.push([error.code, chunk]));
  return found;
}

for (const [text, ...problems] of [
  ["{}"],
  ['{"0": {"path": "x", "_n": 1.5, "a:b": [1e3, {"c": -0.0}], "_o": {"offset": 1.0}}, "c/1": {"data": "AA=="}}'],
  ["\ufeff{}", ["invalid_json", null]],
  ["[]", ["invalid_manifest", null]],
  ["{", ["invalid_json", null]],
  ['{"0": {"path": "\\ud800"}}', ["invalid_json", null]],
  ['{"0": {}, "0": {}}', ["invalid_manifest", "0"]],
  ['{"0": {}, "c/0": {}}', ["invalid_chunk_key", "c/0"]],
  ['{"0": {"path": "x", "path": "y"}}', ["invalid_manifest", "0"]],
  ['{"0": {"path": "x", "_n": [{"a": 1, "b": {}, "a": 2}, {"a": 1}]}}', ["invalid_manifest", "0"]],
  ['{"0": {"path": "x", "offset": 1.0}}', ["invalid_entry", "0"]],
  ['{"0": {"path": "x", "length": 1e2}}', ["invalid_entry", "0"]],
  ['{"0": {"path": "x", "length": 12E-1}}', ["invalid_entry", "0"], ["invalid_entry", "0"]],
  ['{"0": {"data": "AB=="}, "1": {"data": "AAB="}, "2": {"data": "AAAB"}}', ["invalid_entry", "0"], ["invalid_entry", "1"]],
  // Below bad and foreign keys, entries are checked like all others.
  ['{"x": {"path": "#"}}', ["invalid_path", "x"], ["invalid_chunk_key", "x"]],
  ['{"9": {"path": "x", "checksum": "?"}}', ["invalid_entry", "9"], ["invalid_chunk_key", "9"]],
  ['{"x": 1}', ["invalid_entry", "x"], ["invalid_chunk_key", "x"]],
  ['{"9": {"path": "memory://b/x", "last_modified": "now", "checksum": "crc64:00", "etag": "\\u00e9"}}',
    ["unsupported_checksum", "9"], ["invalid_entry", "9"], ["invalid_entry", "9"], ["invalid_path", "9"],
    ["invalid_chunk_key", "9"]],
]) {
  test(`problems of ${text}`, () => assert.deepEqual(problemsOf(text), problems));
}

test("limits and partitions are checked", () => {
  const limits = { entries: 1, inlineBytes: 1, pathLength: 2 };
  assert.deepEqual(problemsOf('{"0": {"data": "AAA="}, "1": {"path": "abc"}}', { limits }), [
    ["limit_exceeded", null], ["limit_exceeded", null], ["limit_exceeded", "1"],
  ]);
  const partition = { shape: [2], block: [1] };
  assert.deepEqual(problemsOf('{"0": {}, "2": {}}', { partition }), [["invalid_chunk_key", "0"]]);
});

const encode = (value) => new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));

/** Problems of a hierarchy with one array; documents by key. */
async function problemsWith(zarrJson, documents = {}, options = {}) {
  const files = new Map([["/a/zarr.json", encode(zarrJson)], ...Object.entries(documents).map(([key, value]) => [key, encode(value)])]);
  const found = await validate(storeHierarchy(files), ["a"], options);
  assert.ok(found.every(({ array, message }) => array === "a" && message !== ""));
  return found.map(({ code, phase, chunk }) => [code, phase, chunk]);
}

const PARTITIONED = { manifest: "{partition}", partition_shape: [2] };

test("partitions: names outside the grid, and documents that are lost", async () => {
  const documents = { "/a/0": {}, "/a/1": {} };
  const problem = ["invalid_configuration", "declaration", null];
  const lost = ["manifest_not_found", "manifest", null];
  for (const [partitions, expected, present = documents] of [
    ["all", []],
    [["1", "0"], []],
    [["0", "2", "7"], [problem, problem]],
    [["0", "0"], [problem]],
    ["all", [lost, lost], {}],
    [["1"], [lost], { "/a/0": "broken" }],
  ]) {
    assert.deepEqual(await problemsWith(arrayMetadata({ ...PARTITIONED, partitions }), present), expected);
  }
  assert.deepEqual(await problemsWith(arrayMetadata(PARTITIONED)), []);
  assert.deepEqual(await problemsWith(arrayMetadata(PARTITIONED), {}, { limits: { partitions: 1 } }), [
    ["limit_exceeded", "manifest", null],
  ]);
});

test("integers of partition_shape are written as integers", async () => {
  const text = (number) => JSON.stringify(arrayMetadata(PARTITIONED)).replace("[2]", `[${number}]`);
  for (const number of ["2.0", "2e0", "20E-1"]) {
    assert.deepEqual(await problemsWith(text(number)), [["invalid_configuration", "declaration", null]]);
  }
  assert.deepEqual(await problemsWith(text("2")), []);
});

test("an inline manifest is checked as it stands in zarr.json", async () => {
  const text = JSON.stringify(arrayMetadata({ manifest: { 0: {} } }));
  assert.deepEqual(await problemsWith(text.replace('{"0":{}}', '{"0":{},"0":{"path":"x","offset":1.0}}')), [
    ["invalid_manifest", "manifest", "0"], ["invalid_entry", "manifest", "0"],
  ]);
});

test("metadata that cannot be read are a problem, and not the end", async () => {
  assert.deepEqual(await problemsWith("{"), [["invalid_configuration", "declaration", null]]);
  assert.deepEqual(await validate(storeHierarchy(new Map()), ["a"]).then((found) => found.map(({ code }) => code)), ["source_not_found"]);
});
