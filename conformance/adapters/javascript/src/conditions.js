/**
 * Source conditions: which state of the source a manifest was written for. Pure.
 */

import { ManifestError } from "./errors.js";

/**
 * @typedef {{etag?: string, lastModified?: number, version?: string, size?: number}} Conditions
 * @typedef {import("./http.js").State} State
 */

/**
 * Refuse a source that is not in the stated state, or whose state cannot be learnt.
 * @param {Conditions | null} conditions
 * @param {State} state
 */
export function checkConditions(conditions, state) {
  if (conditions === null) return;
  const { etag, lastModified, version, size } = conditions;
  if (etag !== undefined) {
    compare("the entity tag", etag, state.etag, state.etag !== null && tag(state.etag) === tag(etag));
  }
  if (size !== undefined) {
    compare("the size", size, state.size, state.size === size);
  }
  if (lastModified !== undefined && !areExact(conditions)) {
    const modified = state.lastModified === null ? NaN : Date.parse(state.lastModified) / 1000;
    const stated = new Date(lastModified * 1000).toUTCString();
    compare("the time of change", stated, state.lastModified, Math.floor(modified) <= lastModified);
  }
  if (version !== undefined) {
    compare("the version", version, state.version, state.version === version);
  }
}

/**
 * Whether they name one state of the source, so that its time does not count.
 * @param {Conditions} conditions
 */
function areExact({ etag, version }) {
  return version !== undefined || (etag !== undefined && !etag.startsWith("W/"));
}

function compare(what, stated, actual, same) {
  if (same) return;
  const is = actual === null ? "is not known" : `is ${JSON.stringify(actual)}`;
  throw new ManifestError(
    "source_changed",
    `${what} ${is}, the entry says ${JSON.stringify(stated)}`,
  );
}

/** An entity tag without its quotes and the mark of a weak one. */
function tag(text) {
  return text.replace(/^W\//, "").replace(/^"(.*)"$/s, "$1");
}

/**
 * Conditions as request headers. None from web pages: from another origin, a browser would first ask
 * whether it may send them, which static servers refuse. What the answer says is compared in any case.
 * @param {Conditions | null} conditions
 * @returns {Record<string, string>}
 */
export function requestHeaders(conditions) {
  const headers = {};
  if (conditions === null || globalThis.document !== undefined) return headers;
  // If-Match compares strongly: a weak tag would never match itself.
  if (conditions.etag !== undefined && !conditions.etag.startsWith("W/")) {
    const etag = tag(conditions.etag);
    if (/^[\x21\x23-\x7e]+$/.test(etag)) headers["If-Match"] = `"${etag}"`;
  }
  if (conditions.lastModified !== undefined && !areExact(conditions)) {
    headers["If-Unmodified-Since"] = new Date(conditions.lastModified * 1000).toUTCString();
  }
  return headers;
}
