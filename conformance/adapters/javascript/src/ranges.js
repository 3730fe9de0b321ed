/**
 * Which bytes of a source a request for a chunk is for ("Reading" in the specification). Pure.
 *
 * A source whose entry says no `length` ends at the end of the object, which is known only when the
 * object has answered. So reading is two steps: `wanted` says what to ask the object for, `cut`
 * checks what it answered and drops what was too much.
 */

import { ManifestError } from "./errors.js";

/**
 * A request for a chunk, relative to the entry, or for an object: all of it, [start, end), from
 * start on, or its last bytes.
 * @typedef {null | {start: number, end: number} | {start: number} | {last: number}} Range
 */

/**
 * What an object answered: bytes from `start` on, its whole size (null when the answer does not say).
 * @typedef {{bytes: Uint8Array, start: number, size: number | null}} Answer
 */

/**
 * The interval of n bytes that a range is for.
 * @param {Range} range
 * @param {number} n
 * @returns {[number, number]}
 */
export function interval(range, n) {
  if (range === null) return [0, n];
  if ("last" in range) return [n - Math.min(range.last, n), n];
  const start = Math.min(range.start, n);
  return [start, "end" in range ? Math.max(start, Math.min(range.end, n)) : n];
}

/**
 * What to ask the object for.
 * @param {{offset: number, length: number | null}} entry
 * @param {Range} range
 * @returns {Range}
 */
export function wanted({ offset, length }, range) {
  if (length !== null) {
    const [start, end] = interval(range, length);
    return { start: offset + start, end: offset + end };
  }
  if (range === null) return offset === 0 ? null : { start: offset };
  if ("last" in range) return { last: range.last };
  const start = offset + range.start;
  return "end" in range ? { start, end: offset + Math.max(range.start, range.end) } : { start };
}

/**
 * The bytes that the request is for, out of the answer to `wanted`; an error unless all are there.
 * @param {{offset: number, length: number | null}} entry
 * @param {Range} range
 * @param {Answer} answer
 */
export function cut({ offset, length }, range, { bytes, start, size }) {
  if (size !== null && size < offset) {
    throw outOfBounds(`the object has ${size} bytes, the entry starts at ${offset}`);
  }
  const arrived = start + bytes.length;
  // An answer that does not say the size, and stops early, is not proof of the object's end.
  const n = length ?? (size ?? unknownEnd({ offset, range, arrived })) - offset;
  if (n <= 0) throw outOfBounds(`the object has no bytes from ${offset} on`);
  const [from, to] = interval(range, n).map((position) => offset + position);
  if (from === to) return bytes.subarray(0, 0);
  if (size !== null && to > size) {
    throw outOfBounds(`the object has ${size} bytes, the entry's range ends at ${to}`);
  }
  if (start > from || arrived < to) {
    throw new ManifestError(
      "short_read",
      `bytes ${from} to ${to} were asked for, ${start} to ${arrived} arrived`,
    );
  }
  return bytes.subarray(from - start, to - start);
}

function unknownEnd({ offset, range, arrived }) {
  const bounded = range !== null && "end" in range;
  if (bounded && arrived === offset + range.end) return arrived;
  if (range === null && offset === 0) return arrived;
  throw new ManifestError(
    "source_error",
    "the answer does not say how large the object is (a server of another origin must expose Content-Range)",
  );
}

function outOfBounds(detail) {
  return new ManifestError("range_out_of_bounds", detail);
}
