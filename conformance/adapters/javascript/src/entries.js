/**
 * Entries of a manifest document, each by itself ("Entries" in the specification). Pure.
 */

import { checkChecksumForm } from "./checksums.js";
import { isObject } from "./configuration.js";
import { ManifestError } from "./errors.js";

const STRINGS = ["path", "data", "checksum", "etag", "last_modified", "version"];
const BESIDE_PATH = ["offset", "length", "etag", "last_modified", "version", "size"];
const KNOWN = [...STRINGS, "offset", "length", "size"];
const [YEAR_1, YEAR_10000] = [-62135596800, 253402300800]; // where they begin
const RFC3339 =
  /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.\d+)?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/;

/**
 * Step 4 of "Precedence": types of members, and contradictions.
 * @param {any} entry as JSON gave it
 */
export function checkEntry(entry) {
  require(isObject(entry), "an entry is not an object");
  const has = (member) => Object.hasOwn(entry, member);
  for (const member of STRINGS) {
    require(!has(member) || typeof entry[member] === "string", `${member} is not a string`);
  }
  for (const [member, least] of [["offset", 0], ["length", 1], ["size", 0]]) {
    require(
      !has(member) || (Number.isSafeInteger(entry[member]) && entry[member] >= least),
      `${member} is not an integer from ${least} to 2^53-1`,
    );
  }
  if (!has("path") && !has("data")) {
    require(
      Object.keys(entry).length === 0,
      "neither path nor data; a chunk that is explicitly empty is {}",
    );
    return;
  }
  require(!(has("path") && has("data")), "both path and data");
  const unknown = Object.keys(entry).find((member) => !KNOWN.includes(member) && !isAnnotation(member));
  require(
    unknown === undefined,
    `unknown member ${JSON.stringify(unknown)}; names of annotations contain : or begin with _`,
  );
  for (const member of BESIDE_PATH) {
    require(has("path") || !has(member), `${member} without path`);
  }
  require(
    Number.isSafeInteger((entry.offset ?? 0) + (entry.length ?? 0)),
    "offset + length is above 2^53-1",
  );
  if (has("data")) checkBase64(entry.data);
}

/** Anything else may change what an entry means, in a later version of the specification. */
function isAnnotation(member) {
  return member.includes(":") || member.startsWith("_");
}

function checkBase64(text) {
  const digits = text.replace(/={1,2}$/, "");
  require(text !== "", "data names no bytes; a chunk that is explicitly empty is {}");
  require(
    text.length % 4 === 0 && !/[^A-Za-z0-9+/]/.test(digits),
    "data is not base64 with padding and without line breaks",
  );
}

/**
 * Number of bytes that base64 of a checked form decodes to.
 * @param {string} text
 */
export function inlineSize(text) {
  return (text.length / 4) * 3 - (text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0);
}

/**
 * @param {string} text base64 of a checked form
 * @returns {Uint8Array}
 */
export function decodeInline(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/**
 * Whether bits of the last digit that stand for no byte are zero, as in what encoders write.
 * @param {string} text base64 of a checked form
 */
export function hasZeroPadding(text) {
  const last = text.slice(-4);
  return btoa(atob(last)) === last;
}

/**
 * Step 7 of "Precedence": the form of `checksum`, its algorithm, the form of the conditions.
 * @param {Record<string, any>} entry
 */
export function checkForms(entry) {
  if (entry.checksum !== undefined) checkChecksumForm(entry.checksum);
  require(
    entry.etag === undefined || /^[ -~]*$/.test(entry.etag),
    "etag has a character that no header can carry",
  );
  require(
    entry.version === undefined || !/[\x00-\x1f\x7f-\x9f]/.test(entry.version),
    "version has a control character",
  );
  if (entry.last_modified !== undefined) parseTime(entry.last_modified);
}

/**
 * The whole seconds of an RFC 3339 date and time.
 * @param {string} text
 * @returns {number} since 1970
 */
export function parseTime(text) {
  const match = RFC3339.exec(text);
  require(match !== null, "last_modified is not an RFC 3339 date and time with an offset");
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number);
  const [offsetHours, offsetMinutes] = [Number(match[8] ?? 0), Number(match[9] ?? 0)];
  const date = new Date(0);
  // setUTCFullYear, because Date.UTC takes years below 100 for those of the 20th century.
  date.setUTCFullYear(year, month - 1, day);
  require(
    year >= 1 && date.getUTCMonth() === month - 1 && date.getUTCDate() === day &&
      hour <= 23 && minute <= 59 && second <= 59 && offsetHours <= 23 && offsetMinutes <= 59,
    "last_modified is no time that there is",
  );
  const offset = (match[7] === "-" ? -1 : 1) * (offsetHours * 60 + offsetMinutes);
  const seconds = date.getTime() / 1000 + hour * 3600 + (minute - offset) * 60 + second;
  require(seconds >= YEAR_1 && seconds < YEAR_10000, "last_modified is not in the years 1 to 9999 in UTC");
  return seconds;
}

/**
 * @param {unknown} condition
 * @param {string} detail
 * @returns {asserts condition}
 */
function require(condition, detail) {
  if (!condition) throw new ManifestError("invalid_entry", detail);
}
