/** Ranges: for all small objects, entries and requests, what slicing the object says. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { cut, interval, wanted } from "../src/ranges.js";

const SIZE = 5;
const OBJECT = Uint8Array.from({ length: SIZE }, (_, i) => 10 + i);

function* requests() {
  yield null;
  for (let a = 0; a <= SIZE + 2; a++) {
    yield { start: a };
    yield { last: a };
    for (let b = a; b <= SIZE + 3; b++) yield { start: a, end: b };
  }
}

/** What an honest server answers, with or without the object's size. */
function serve(range, size) {
  const [start, end] = interval(range, SIZE);
  return { bytes: OBJECT.slice(start, end), start, size };
}

test("every request for every entry within the object reads its part of the entry", () => {
  for (let offset = 0; offset < SIZE; offset++) {
    for (const length of [null, ...Array.from({ length: SIZE - offset }, (_, i) => i + 1)]) {
      const entry = { offset, length };
      const encoded = OBJECT.slice(offset, length === null ? SIZE : offset + length);
      for (const request of requests()) {
        const answer = serve(wanted(entry, request), SIZE);
        assert.deepEqual(cut(entry, request, answer), encoded.slice(...interval(request, encoded.length)));
      }
    }
  }
});

test("an entry that ends after the object is out of bounds", () => {
  const entry = { offset: 3, length: 3 };
  for (const request of [null, { start: 0 }, { last: 1 }, { start: 2, end: 3 }]) {
    const answer = serve(wanted(entry, request), SIZE);
    assert.throws(() => cut(entry, request, answer), { code: "range_out_of_bounds" });
  }
});

test("an entry that starts where the object ends, or after it, is out of bounds", () => {
  const answer = { bytes: new Uint8Array(0), start: SIZE, size: SIZE };
  assert.throws(() => cut({ offset: SIZE, length: null }, null, answer), {
    code: "range_out_of_bounds",
  });
});

test("fewer bytes than the object holds are a short read", () => {
  const answer = { bytes: OBJECT.slice(0, 2), start: 0, size: SIZE };
  assert.throws(() => cut({ offset: 0, length: 4 }, null, answer), { code: "short_read" });
});

test("an early end is believed only of an answer that says the size", () => {
  const answer = { bytes: OBJECT.slice(1), start: 1, size: null };
  assert.throws(() => cut({ offset: 1, length: null }, null, answer), { code: "source_error" });
});
