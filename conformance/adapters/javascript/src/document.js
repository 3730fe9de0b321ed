/**
 * Manifest documents: from decoded JSON to entries by chunk, checked in the order of the
 * specification ("Precedence", steps 3 to 8).
 */

import { isObject } from "./configuration.js";
import { blockOf, canonicalKey, chunkKeyReader, compareIndices, isInGrid } from "./chunk-keys.js";
import { checkEntry, checkForms, inlineSize, parseTime } from "./entries.js";
import { locating, ManifestError } from "./errors.js";
import { resolveObject } from "./locations.js";

/**
 * @typedef {import("./locations.js").Location} Location
 * @typedef {import("./array-metadata.js").Layout} Layout
 */

/**
 * An entry: `empty`, or inline `data` (base64), or a range of `location`.
 * @typedef {object} Entry
 * @property {boolean} empty
 * @property {string} [data]
 * @property {Location} [location]
 * @property {number} offset
 * @property {number | null} length null up to the end of the object
 * @property {string} [checksum]
 * @property {{etag?: string, lastModified?: number, version?: string, size?: number} | null} conditions
 */

/** @typedef {{entries: number, inlineBytes: number, pathLength: number}} DocumentLimits */

/**
 * A member of a document that names a chunk of the grid.
 * @typedef {{key: string, index: number[], value: Record<string, any>}} Member
 */

/**
 * The entries of one document, by canonical chunk key, in C order.
 * @param {any} document as JSON gave it
 * @param {object} context
 * @param {Layout} context.layout
 * @param {Location} context.base
 * @param {DocumentLimits} context.limits
 * @param {{shape: number[], block: number[]} | null} context.partition
 * @returns {Map<string, Entry>}
 */
export function readDocument(document, { layout, base, limits, partition }) {
  checkRoot(document);
  const names = Object.keys(document);
  if (names.length > limits.entries) exceeded(`more than ${limits.entries} entries`);
  let inline = 0;
  for (const key of names) {
    locating({ chunk: key }, () => checkEntry(document[key]));
    locating({ chunk: key }, () => checkLengths(document[key], limits.pathLength));
    inline += typeof document[key].data === "string" ? inlineSize(document[key].data) : 0;
    if (inline > limits.inlineBytes) exceeded(`more than ${limits.inlineBytes} bytes inline`);
  }
  const members = chunkMembers(document, names, layout);
  checkPlaces(members, partition);
  for (const { key, value } of members) locating({ chunk: key }, () => checkForms(value));
  return new Map(
    members.map(({ key, index, value }) => [
      canonicalKey(index),
      locating({ chunk: key }, () => makeEntry(value, base)),
    ]),
  );
}

/** @param {unknown} document */
export function checkRoot(document) {
  if (!isObject(document)) {
    throw new ManifestError("invalid_manifest", "the document is not a JSON object");
  }
}

/**
 * What is sent to a server is not longer than any server takes.
 * @param {Record<string, any>} entry
 * @param {number} most
 */
export function checkLengths(entry, most) {
  for (const name of ["path", "etag", "version"]) {
    const value = entry[name];
    if (typeof value === "string" && isLonger(value, most)) {
      throw new ManifestError("limit_exceeded", `${name} has more than ${most} characters`);
    }
  }
}

/** Whether a text has more than so many code points. */
function isLonger(text, most) {
  return text.length > most && (text.length > 2 * most || [...text].length > most);
}

function exceeded(detail) {
  throw new ManifestError("limit_exceeded", `the document has ${detail}`);
}

/** Step 5: every member is a chunk key; those outside the grid are dropped. @returns {Member[]} */
function chunkMembers(document, names, layout) {
  const readKey = chunkKeyReader(layout);
  const members = names.map((key) => {
    const index = readKey(key);
    if (index === null) throw notAKey(key);
    return { key, index, value: document[key] };
  });
  return members
    .filter(({ index }) => isInGrid(index, layout.gridShape))
    .sort((a, b) => compareIndices(a.index, b.index));
}

/** @param {string} key */
export function notAKey(key) {
  return new ManifestError("invalid_chunk_key", "not a chunk key of this array", { chunk: key });
}

/** Step 6: no chunk belongs to another partition, none is named twice. */
function checkPlaces(members, partition) {
  for (const { key, index } of members) checkBlock(key, index, partition);
  members.forEach((member, i) => {
    if (i > 0 && compareIndices(members[i - 1].index, member.index) === 0) {
      throw namedTwice(members[i - 1].key, member.key);
    }
  });
}

/**
 * @param {string} key
 * @param {number[]} index
 * @param {{shape: number[], block: number[]} | null} partition
 */
export function checkBlock(key, index, partition) {
  if (partition === null) return;
  const block = blockOf(index, partition.shape);
  if (compareIndices(block, partition.block) !== 0) {
    throw new ManifestError(
      "invalid_chunk_key",
      `the chunk belongs to partition ${canonicalKey(block)}`,
      { chunk: key },
    );
  }
}

/**
 * @param {string} one
 * @param {string} other
 */
export function namedTwice(one, other) {
  return new ManifestError("invalid_chunk_key", `${one} names the same chunk`, { chunk: other });
}

/**
 * Step 8: the path resolves.
 * @param {Record<string, any>} value an entry that was checked
 * @param {Location} base
 * @returns {Entry}
 */
export function makeEntry(value, base) {
  const entry = { empty: false, offset: 0, length: null, conditions: null, checksum: value.checksum };
  if (value.data !== undefined) return { ...entry, data: value.data };
  if (value.path === undefined) return { ...entry, empty: true };
  return {
    ...entry,
    location: resolveObject(value.path, base),
    offset: value.offset ?? 0,
    length: value.length ?? null,
    conditions: makeConditions(value),
  };
}

/** @param {Record<string, any>} value */
function makeConditions({ etag, last_modified: lastModified, version, size }) {
  if ([etag, lastModified, version, size].every((stated) => stated === undefined)) return null;
  return {
    etag,
    lastModified: lastModified === undefined ? undefined : parseTime(lastModified),
    version,
    size,
  };
}
