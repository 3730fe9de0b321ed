/**
 * Which bytes of an object the answer of an HTTP server holds, as its headers say. Pure.
 *
 * Offsets and sizes are those of the object itself. Nothing may be taken for a part of it that is
 * a part of an encoding of it.
 */

import { ManifestError } from "./errors.js";

/** @typedef {import("./ranges.js").Range} Range */

/**
 * @typedef {object} Extent
 * @property {boolean} partial
 * @property {boolean} encoded whether the body was decoded on arrival
 * @property {number} start
 * @property {number | null} end null for an answer that does not say where it ends
 * @property {number | null} size of the whole object
 */

// What `fetch` decodes by itself, everywhere. Of other encodings it returns the encoded bytes.
const DECODED = ["gzip", "x-gzip", "deflate", "br"];

/**
 * @param {Response} response of status 200 or 206
 * @param {Range} range that was asked for
 * @returns {Extent}
 */
export function readExtent(response, range) {
  return range === null ? wholeExtent(response) : partialExtent(response, range);
}

function wholeExtent(response) {
  const { status, headers } = response;
  if (status !== 200) throw wrong("an unasked range");
  const encodings = encodingsOf(response);
  if (!encodings.every((name) => DECODED.includes(name))) {
    throw wrong(`an encoding of the object, ${encodings.join(", ")}`);
  }
  // From another origin, Content-Encoding is hidden, and Content-Length is that of what was sent.
  const sizeIsKnown = encodings.length === 0 && response.type !== "cors";
  const size = sizeIsKnown ? integer(headers.get("content-length")) : null;
  return { partial: false, encoded: encodings.length > 0, start: 0, end: size, size };
}

function partialExtent(response, range) {
  if (response.status !== 206) throw wrong("the whole object, where a range was asked for");
  if (encodingsOf(response).length > 0) throw wrong("a range of an encoding of the object");
  const header = response.headers.get("content-range");
  if (header === null) return hiddenExtent(response, range);
  const match = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(header);
  if (!match) throw wrong(`Content-Range ${JSON.stringify(header)}`);
  const [start, last] = [Number(match[1]), Number(match[2])];
  const size = match[3] === "*" ? null : Number(match[3]);
  checkExtent(header, range, { start, end: last + 1, size });
  return { partial: true, encoded: false, start, end: last + 1, size };
}

/** A server of another origin may not expose Content-Range to scripts; any other must send it. */
function hiddenExtent(response, range) {
  if (response.type !== "cors" || !("end" in range)) throw wrong("a range without Content-Range");
  return { partial: true, encoded: false, start: range.start, end: range.end, size: null };
}

function checkExtent(header, range, { start, end, size }) {
  const asked =
    "last" in range
      ? size !== null && start === Math.max(0, size - range.last) && end === size
      : start === range.start && (!("end" in range) || end <= range.end);
  if (!asked || end <= start || (size !== null && end > size)) {
    throw wrong(`Content-Range ${JSON.stringify(header)}`);
  }
}

/** The encodings of an answer, `identity` excluded. */
function encodingsOf({ headers }) {
  return (headers.get("content-encoding") ?? "")
    .split(",")
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== "" && name !== "identity");
}

function wrong(detail) {
  return new ManifestError("source_error", `the server does not serve what was asked for: it answered ${detail}`);
}

function integer(text) {
  return text !== null && /^\d+$/.test(text) ? Number(text) : null;
}
