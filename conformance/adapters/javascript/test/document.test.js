/** Manifest documents: what entries may say, and which of several errors counts. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { readDocument } from "../src/document.js";
import { checkEntry, decodeInline, hasZeroPadding, inlineSize, parseTime } from "../src/entries.js";
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
  { "_note": 1 }, { "a:b": 1 }, { path: "x", ofset: 8 }, { data: "AA==", note: 1 }, { path: "x", "": 1 },
  { path: "x", note_: 1 }, { path: "x", toString: 1 },
]) {
  test(`refused: ${JSON.stringify(entry)}`, () =>
    assert.throws(() => checkEntry(entry), { code: "invalid_entry" }));
}

for (const entry of [
  {}, { path: "x" }, { path: "x", offset: 0, length: 2 ** 53 - 1 }, { path: "x", "my:own": [null] },
  { data: "AAE=", _note: {}, "a:b": null, ":": 1, _: 1 }, { data: "AB==" }, JSON.parse('{"path": "x", "offset": 100.0, "__proto__": {"data": "AA=="}}'),
]) {
  test(`accepted: ${JSON.stringify(entry)}`, () => checkEntry(entry));
}

test("inline data has the size that it decodes to", () => {
  for (const text of ["AA==", "AAE=", "AAEC", "AAECAw=="]) {
    assert.equal(decodeInline(text).length, inlineSize(text));
  }
});

test("unused bits of base64 are zero in what an encoder writes", () => {
  for (let n = 1; n <= 6; n++) {
    for (let value = 0; value < 256; value++) {
      const text = Buffer.alloc(n, value).toString("base64");
      assert.ok(hasZeroPadding(text));
      const digit = text.replace(/=*$/, "").at(-1);
      const other = text.replace(/[^=](=+)$/, `${shifted(digit)}$1`);
      assert.equal(hasZeroPadding(other), other === text);
    }
  }
});

/** The base64 digit after a digit: it differs in the last bit. */
function shifted(digit) {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  return digits[digits.indexOf(digit) + 1];
}

test("lengths are counted in code points", () => {
  const value = (text) => ({ 0: { path: "x", version: text } });
  const most = LIMITS.pathLength;
  for (const character of ["a", "\u00e9", "\u20ac", "\u{1f600}"]) {
    read(value(character.repeat(most)));
    raises(value(character.repeat(most + 1)), "limit_exceeded");
  }
  raises(value(`a${"\u{1f600}".repeat(most)}`), "limit_exceeded");
});

test("every day of 2,000 years is the one that the platform's dates say", () => {
  for (let day = -719162; day < 11016; day += 7) {
    const text = new Date(day * 86400000).toISOString().replace(/\.000Z$/, "+00:00");
    assert.equal(parseTime(text), day * 86400, text);
  }
});

test("times are read in whole seconds, with their offset", () => {
  assert.equal(parseTime("2024-01-01T00:00:00Z"), 1704067200);
  assert.equal(parseTime("2024-01-01t02:00:00.9+02:00"), 1704067200);
  assert.equal(parseTime("0001-01-01T00:00:00-23:59"), -62135510460);
  assert.equal(parseTime("0001-01-01T00:00:00Z"), -62135596800);
  assert.equal(parseTime("9999-12-31T23:59:59z"), 253402300799);
  for (const text of [
    "2024-01-01", "2024-01-01T00:00:00", "2024-02-30T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01 00:00:00Z",
    "2016-12-31T23:59:60Z", "0000-01-01T00:00:00Z", "2024-01-01T00:00:00+12:60", "2024-01-01T00:00:00+24:00",
    "2024-01-01T00:00:00.Z", "2024-01-01T00:60:00Z", "2024-13-01T00:00:00Z", "2023-02-29T00:00:00Z",
    "2024-01-01T00:00:00Z ", "12024-01-01T00:00:00Z", "2024-01-01T00:00Z", "2024-01-01T00:00:00+0100",
    "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01",
  ]) {
    assert.throws(() => parseTime(text), { code: "invalid_entry" });
  }
});
