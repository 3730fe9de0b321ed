/** Chunk keys and grid indices. */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  blockOf, canonicalKey, chunkKeyReader, compareIndices, encodeKey, gridIndices,
} from "../src/chunk-keys.js";

const ENCODINGS = ["default", "v2"].flatMap((name) => ["/", "."].map((separator) => ({ name, separator })));
const INDICES = [[], [0], [12], [0, 3, 7], [10, 0], [2 ** 53 - 1]];

test("both spellings of every index are read back", () => {
  for (const keyEncoding of ENCODINGS) {
    for (const index of INDICES) {
      const read = chunkKeyReader({ shape: index.map(() => 1), keyEncoding });
      assert.deepEqual(read(canonicalKey(index)), index);
      assert.deepEqual(read(encodeKey(index, keyEncoding)), index);
    }
  }
});

test("what is no chunk key is not read", () => {
  const read = chunkKeyReader({ shape: [1, 1], keyEncoding: ENCODINGS[0] });
  for (const key of [
    "", "0", "0.0.0", "00.1", "0.01", "-1.0", "+1.0", "1e0.0", "0.0.", ".0.0", "0/0", "c.0.0", "c/0/0/",
    "/c/0/0", "C/0/0", "0.0\n", " 0.0", "٠.٠", "9007199254740992.0", "__proto__",
  ]) {
    assert.equal(read(key), null, JSON.stringify(key));
  }
});

test("zero-dimensional arrays have one key, in each spelling", () => {
  assert.equal(canonicalKey([]), "0");
  assert.equal(encodeKey([], { name: "default", separator: "/" }), "c");
  assert.equal(encodeKey([], { name: "v2", separator: "." }), "0");
});

test("the indices of a grid come in C order, each in one block", () => {
  const indices = [...gridIndices([2, 3])];
  assert.deepEqual(indices, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]);
  assert.deepEqual([...indices].reverse().sort(compareIndices), indices);
  assert.deepEqual(indices.map((index) => blockOf(index, [2, 2])[1]), [0, 0, 1, 0, 0, 1]);
  assert.deepEqual([...gridIndices([])], [[]]);
  assert.deepEqual([...gridIndices([3, 0])], []);
});
