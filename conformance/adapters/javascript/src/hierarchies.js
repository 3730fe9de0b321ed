/**
 * Where a hierarchy lies: on an HTTP server, or in any store that zarrita knows. Both become one
 * function that reads objects by key and says how large they are, which zarrita's stores do not.
 */

import { Allowed } from "./allowed.js";
import { interval } from "./ranges.js";
import { ManifestError } from "./errors.js";
import { readHttp } from "./http.js";
import { conditionHeaders } from "./conditions.js";
import { encodeSegment, findRedirectAccess } from "./sources.js";

/** @typedef {import("./sources.js").ReadObject} ReadObject */

/**
 * A hierarchy on an HTTP server. Redirects are followed within it.
 * @param {string | URL} url
 * @param {{fetch?: typeof globalThis.fetch, headers?: Record<string, string>}} [access]
 * @returns {ReadObject}
 */
export function httpHierarchy(url, { fetch, headers } = {}) {
  const root = new URL(url);
  const { search } = root;
  root.search = root.hash = "";
  if (!root.pathname.endsWith("/")) root.pathname += "/";
  const allowed = new Allowed([root.href]);
  return (key, range, { conditions = null, ...options }) => {
    const sent = { ...headers, ...(globalThis.document ? {} : conditionHeaders(conditions)) };
    return readHttp({
      ...options,
      url: root.href + key.split("/").map(encodeSegment).join("/") + search,
      range,
      fetch,
      headers: sent,
      redirect: (target) => {
        findRedirectAccess(target, allowed);
        return { fetch, headers: sent };
      },
    });
  };
}

/**
 * A hierarchy in a store of zarrita. It is asked for whole objects only: the answers of these stores
 * to ranges do not say where an object ends, and some fill up with zeros what is not there.
 * @param {{get: (key: `/${string}`, options?: object) => Promise<Uint8Array | undefined> | Uint8Array | undefined}} store
 * @returns {ReadObject}
 */
export function storeHierarchy(store) {
  return async (key, range, { inspect, limit = Infinity, signal }) => {
    const bytes = await store.get(`/${key}`, { signal });
    if (bytes === undefined) throw new ManifestError("source_not_found", "the store has no such key");
    if (bytes.length > limit) {
      throw new ManifestError("limit_exceeded", `the document has more than ${limit} bytes`);
    }
    const state = { etag: null, lastModified: null, version: null };
    inspect?.(state);
    const [start, end] = interval(range, bytes.length);
    return { ...state, bytes: bytes.subarray(start, end), start, size: bytes.length };
  };
}
