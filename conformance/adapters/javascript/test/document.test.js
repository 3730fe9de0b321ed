/** Manifest documents: what entries may say, and which of several errors counts. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { readDocument } from "../src/document.js";
import { checkEntry, decodeInline, inlineSize, parseTime } from "../src/entries.js";
import { nodeLocation } from "../src/locations.js";

const LAYOUT = {
  shape: [4], chunkShape: [1], gridShape: [4], keyEncoding: { name: "default", separator: "/" },
};
const LIMITS = { entries: 10, inlineBytes: 10, pathLength: 1000 };

function read(document, partition = null) {
  return readDocument(document, { layout: LAYOUT, base: nodeLocation("a"), limits: LIMITS, partition });
}

const raises = (document, code, partition) =>
  assert.throws(() => read(document, partition), { code });

test("entries come in C order under canonical keys", () => {
  const entries = read({ "c/2": { path: "x" }, 0: {}, 1: { data: "AA==" } });
  assert.deepEqual([...entries.keys()], ["0", "1", "2"]);
  assert.equal(entries.get("0").empty, true);
  assert.deepEqual(entries.get("2").location.segments, ["a", "x"]);
});

for (const [what, document, code, partition] of [
  ["the root", [], "invalid_manifest"],
  ["an entry before a key", { x: {}, 3: 1 }, "invalid_entry"],
  ["an entry outside the grid before a key", { 9: { Path: "x" }, x: {} }, "invalid_entry"],
  ["a key before another partition", { 3: {}, x: {} }, "invalid_chunk_key", { shape: [2], block: [0] }],
  ["another partition", { 3: {} }, "invalid_chunk_key", { shape: [2], block: [0] }],
  ["two spellings before a checksum", { 1: { path: "x", checksum: "?" }, "c/1": {} }, "invalid_chunk_key"],
  ["checksums in C order", { 1: { path: "x", checksum: "?" }, "c/0": { path: "x", checksum: "xx:0" } },
    "unsupported_checksum"],
  ["a checksum before a path", { 0: { path: "#" }, 1: { path: "x", checksum: "?" } }, "invalid_entry"],
  ["a time before a path", { 0: { path: "#" }, 1: { path: "x", last_modified: "now" } }, "invalid_entry"],
  ["a path", { 0: { path: "#" } }, "invalid_path"],
  ["too many entries", Object.fromEntries(Array.from({ length: 11 }, (_, i) => [i, {}])), "limit_exceeded"],
  ["too much inline", { 0: { data: "AAAAAAAA" }, 1: { data: "AAAAAAAA" } }, "limit_exceeded"],
]) {
  test(`what counts: ${what}`, () => raises(document, code, partition));
}

test("outside the grid only the entry itself is checked", () => {
  assert.equal(read({ 9: { path: "#", checksum: "?" } }).size, 0);
});

for (const entry of [
  null, [], 1, { Path: "x" }, { path: null }, { path: "x", data: "AA==" }, { offset: 0 }, { checksum: "" },
  { path: "x", offset: -1 }, { path: "x", offset: 1.5 }, { path: "x", length: 0 }, { path: "x", length: "1" },
  { path: "x", length: 2 ** 53 }, { path: "x", offset: 2 ** 53 - 1, length: 1 }, { path: "x", etag: 1 },
  { data: "" }, { data: "AA" }, { data: "AA=A" }, { data: "A===" }, { data: "AA==\n" }, { data: "AA__" },
  { data: "AA==", offset: 0 }, { data: "AA==", version: "1" }, { extra: 1 }, { path: "x", checksum: null },
]) {
  test(`refused: ${JSON.stringify(entry)}`, () =>
    assert.throws(() => checkEntry(entry), { code: "invalid_entry" }));
}

for (const entry of [
  {}, { path: "x" }, { path: "x", offset: 0, length: 2 ** 53 - 1 }, { path: "x", "my:own": [null] },
  { data: "AAE=" }, JSON.parse('{"path": "x", "offset": 100.0, "__proto__": {"data": "AA=="}}'),
]) {
  test(`accepted: ${JSON.stringify(entry)}`, () => checkEntry(entry));
}

test("inline data has the size that it decodes to", () => {
  for (const text of ["AA==", "AAE=", "AAEC", "AAECAw=="]) {
    assert.equal(decodeInline(text).length, inlineSize(text));
  }
});

test("times are read in whole seconds, with their offset", () => {
  assert.equal(parseTime("2024-01-01T00:00:00Z"), 1704067200);
  assert.equal(parseTime("2024-01-01t02:00:00.9+02:00"), 1704067200);
  for (const text of ["2024-01-01", "2024-01-01T00:00:00", "2024-02-30T00:00:00Z", "2024-01-01T24:00:00Z"]) {
    assert.throws(() => parseTime(text), { code: "invalid_entry" });
  }
});
