/**
 * From URL references to locations ("Path resolution" in the specification). Pure.
 *
 * Segments of a location are decoded. Those of a base are, too: `resolve` decodes each reference
 * once, and bases and references are joined after that.
 */

import { checkAuthority, SCHEMES } from "./authorities.js";
import { ManifestError } from "./errors.js";
import { redact } from "./redaction.js";

/**
 * A key in the hierarchy's store (`scheme` null), or an absolute URL.
 * @typedef {object} Location
 * @property {string | null} scheme in lower case
 * @property {string} authority
 * @property {string[]} segments decoded; the last one is empty for a directory
 * @property {string} query with its `?`, or empty
 * @property {Location | null} [root] of a relative base: the hierarchy's URL, if it has one
 */

const PARTS = /^([^?]*)(\?.*)?$/s;
const SCHEME = /^([A-Za-z][A-Za-z0-9+.-]*):(.*)$/s;
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
const ENCODED_CONTROL = /%(?:[01][0-9a-f]|7f|c2%[89][0-9a-f])/i;
const LONE_SURROGATE = /\p{Surrogate}/u;

/** @returns {never} */
function refuse(reference, detail) {
  throw new ManifestError("invalid_path", `${detail}: ${JSON.stringify(redact(reference))}`);
}

/**
 * The directory of a node of the hierarchy, as a base.
 * @param {string} path of the node, without slashes around it
 * @param {Location | null} [root] URL of the hierarchy, without a slash at its end
 * @returns {Location}
 */
export function nodeLocation(path, root = null) {
  const segments = path === "" ? [""] : [...path.split("/"), ""];
  return { scheme: null, authority: "", segments, query: "", root };
}

/**
 * Resolve a `base`: the result may be a directory, and has no query.
 * @param {string} reference
 * @param {Location} base
 * @returns {Location}
 */
export function resolveBase(reference, base) {
  return { ...resolve(reference, base), query: "" };
}

/**
 * Resolve what overrides all bases: like a base, but that it always names a directory.
 * @param {string} reference relative to the hierarchy's root
 * @param {Location | null} root
 * @returns {Location}
 */
export function resolveOverride(reference, root) {
  const location = resolveBase(reference, nodeLocation("", root));
  const { segments } = location;
  return segments.at(-1) === "" ? location : { ...location, segments: [...segments, ""] };
}

/**
 * Resolve the reference of an object.
 * @param {string} reference
 * @param {Location} base
 * @returns {Location}
 */
export function resolveObject(reference, base) {
  const location = resolve(reference, base);
  if (location.segments.at(-1) === "") refuse(reference, "a directory is no object");
  return location;
}

/**
 * Parse an absolute URL or an absolute file path, of an object or a directory.
 * @param {string} url
 * @returns {Location}
 */
export function parseAbsolute(url) {
  if (!SCHEME.test(url) && !url.startsWith("/")) refuse(url, "not an absolute URL");
  return resolve(url, nodeLocation(""));
}

/**
 * Parse an authorised prefix, with or without a slash at its end.
 * @param {string} url
 * @returns {Location} without a slash at its end
 */
export function parsePrefix(url) {
  if (url.includes("?")) refuse(url, "a prefix with a query");
  const location = parseAbsolute(url);
  const { segments } = location;
  return segments.at(-1) === "" ? { ...location, segments: segments.slice(0, -1) } : location;
}

function resolve(reference, base) {
  checkCharacters(reference);
  const [, text, query = ""] = /** @type {RegExpExecArray} */ (PARTS.exec(reference));
  const location = resolvePath(reference, text, base);
  if (query !== "" && location.scheme !== "http" && location.scheme !== "https") {
    refuse(reference, "only http and https URLs have a query");
  }
  if (ENCODED_CONTROL.test(query)) refuse(reference, "an encoded control character");
  // Elsewhere than in the hierarchy's store, empty segments are part of a name, save the first.
  const inner = location.segments.slice(0, -1);
  const named = location.scheme === null ? inner : inner.slice(0, 1);
  if (named.includes("")) refuse(reference, "an empty segment");
  return { ...location, query };
}

/** Step 1 of the specification, but for what belongs to single segments. */
function checkCharacters(reference) {
  if (reference === "") refuse(reference, "an empty reference");
  if (CONTROL.test(reference)) refuse(reference, "a control character");
  if (LONE_SURROGATE.test(reference)) refuse(reference, "a lone surrogate");
  if (reference.includes("\\")) refuse(reference, "a backslash");
  if (reference.includes("#")) refuse(reference, "a fragment");
  if (/%(?![0-9A-Fa-f]{2})/.test(reference)) refuse(reference, "% without two hex digits");
  if (reference.startsWith("//")) refuse(reference, "a reference that begins with //");
}

function resolvePath(reference, text, base) {
  const scheme = SCHEME.exec(text);
  if (scheme) return absolute(reference, scheme[1].toLowerCase(), scheme[2]);
  if (text.startsWith("/")) return absolute(reference, "file", `//${text}`);
  const from = absoluteBase(base);
  if (text === "") return relativeTo(base.root, from);
  const segments = removeDots(reference, [...from.segments.slice(0, -1), ...decode(reference, text)]);
  return relativeTo(base.root, { ...from, segments });
}

/** A base as a URL, if it has one. */
function absoluteBase(base) {
  if (base.scheme !== null || !base.root) return base;
  return { ...base.root, segments: [...base.root.segments, ...base.segments] };
}

/** What a relative reference names: a key if it lies below the hierarchy's root. */
function relativeTo(root, location) {
  if (!root) return location;
  const { segments } = location;
  const depth = root.segments.length;
  const inside = segments.length > depth && root.segments.every((name, i) => name === segments[i]);
  if (!inside) return { ...location, root };
  return { scheme: null, authority: "", segments: segments.slice(depth), query: "", root };
}

function absolute(reference, scheme, rest) {
  if (!SCHEMES.includes(scheme)) {
    refuse(reference, `the scheme ${scheme} is not one of ${SCHEMES.join(", ")}`);
  }
  const parts = /^(?:\/\/([^/]*))?(?:\/(.*))?$/s.exec(rest);
  if (!parts || (scheme === "file" && parts[2] === undefined)) {
    refuse(reference, "an absolute URL without a path from its root");
  }
  const [, authority = "", path = ""] = parts;
  const segments = removeDots(reference, decode(reference, path));
  const checked = checkAuthority(scheme, authority);
  if ("wrong" in checked) refuse(reference, checked.wrong);
  return { scheme, authority: checked.authority, segments, query: "" };
}

/** Undo percent-encoding by segments, and refuse what only decoding would show. */
function decode(reference, path) {
  if (/%(?:2f|5c)/i.test(path)) refuse(reference, "an encoded slash or backslash");
  return path.split("/").map((raw) => {
    let segment;
    try {
      segment = decodeURIComponent(raw);
    } catch (error) {
      if (!(error instanceof URIError)) throw error;
      refuse(reference, "escapes that are not UTF-8");
    }
    if (CONTROL.test(segment)) refuse(reference, "an encoded control character");
    if (segment !== raw && (segment === "." || segment === "..")) {
      refuse(reference, "an encoded dot segment");
    }
    return segment;
  });
}

/** RFC 3986 section 5.2.4, but that nothing is above the root. */
function removeDots(reference, segments) {
  const kept = [];
  segments.forEach((segment, i) => {
    const last = i === segments.length - 1;
    if (segment === "..") {
      if (kept.length === 0) refuse(reference, "a path that leaves its root");
      kept.pop();
    }
    if (segment !== "." && segment !== "..") kept.push(segment);
    else if (last) kept.push("");
  });
  return kept;
}

/**
 * A location as text that may be shown: without its query.
 * @param {Location} location
 */
export function display({ scheme, authority, segments }) {
  const path = segments.join("/");
  return scheme === null ? path : `${scheme}://${authority}/${path}`;
}
