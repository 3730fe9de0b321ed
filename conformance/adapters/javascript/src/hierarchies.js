/**
 * Where a hierarchy lies: on an HTTP server, or in any store that zarrita knows. Both become one
 * function that reads objects by key and says how large they are, which zarrita's stores do not.
 */

import { requestHeaders } from "./conditions.js";
import { ManifestError } from "./errors.js";
import { readHttp } from "./http.js";
import { parsePrefix } from "./locations.js";
import { interval } from "./ranges.js";
import { reasonOf } from "./redaction.js";
import { encodeSegment } from "./sources.js";

/**
 * @typedef {import("./sources.js").ReadObject} ReadObject
 * @typedef {import("./allowed.js").Access} Access
 */

/**
 * A hierarchy that can be read.
 * @typedef {object} Hierarchy
 * @property {ReadObject} read reads an object by its key
 * @property {Access | null} home the URL that the hierarchy lies below, where redirects and symbolic
 *   links may lead; null for one without a URL
 */

/**
 * A hierarchy on an HTTP server.
 * @param {string | URL} url
 * @param {{fetch?: typeof globalThis.fetch, headers?: Record<string, string>}} [access]
 * @returns {Hierarchy}
 */
export function httpHierarchy(url, { fetch, headers } = {}) {
  const root = new URL(url);
  const { search } = root;
  root.search = root.hash = "";
  if (!root.pathname.endsWith("/")) root.pathname += "/";
  const home = { prefix: root.href, fetch, headers };
  return {
    home: isPrefix(root.href) ? home : null,
    read: (key, range, { conditions = null, ...options }) =>
      readHttp({
        ...options,
        url: root.href + key.split("/").map(encodeSegment).join("/") + search,
        range,
        fetch,
        headers,
        conditionHeaders: requestHeaders(conditions),
      }),
  };
}

/** Whether locations can be compared with a URL: with %2F in it, for example, none can. */
function isPrefix(url) {
  try {
    parsePrefix(url);
    return true;
  } catch (error) {
    if (error instanceof ManifestError) return false;
    throw error;
  }
}

/**
 * A hierarchy in a store of zarrita. It is asked for whole objects only: the answers of these stores
 * to ranges do not say where an object ends, and some fill up with zeros what is not there.
 * @param {{get: (key: `/${string}`, options?: object) => Promise<Uint8Array | undefined> | Uint8Array | undefined}} store
 * @returns {Hierarchy}
 */
export function storeHierarchy(store) {
  /** @type {ReadObject} */
  const read = async (key, range, { inspect, limit = Infinity, pastCaches = false, signal }) => {
    // zarrita's own store hands these options to `fetch`.
    const bytes = await getWhole(store, key, { signal, ...(pastCaches ? { cache: "reload" } : {}) });
    if (bytes === undefined) throw new ManifestError("source_not_found", "the store has no such key");
    if (bytes.length > limit) {
      throw new ManifestError("limit_exceeded", `the document has more than ${limit} bytes`);
    }
    const state = { etag: null, lastModified: null, version: null, size: bytes.length };
    inspect?.(state);
    const [start, end] = interval(range, bytes.length);
    return { ...state, bytes: bytes.subarray(start, end), start };
  };
  return { home: null, read };
}

async function getWhole(store, key, options) {
  try {
    return await store.get(`/${key}`, options);
  } catch (error) {
    options.signal?.throwIfAborted();
    if (error instanceof ManifestError) throw error;
    throw new ManifestError("source_error", `the store failed: ${reasonOf(error)}`, { cause: error });
  }
}
