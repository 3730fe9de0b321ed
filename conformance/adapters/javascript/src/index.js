/**
 * Zarr arrays whose chunks lie anywhere, for zarrita: a reader of `chunk-manifest-json`.
 *
 * Works in browsers and in Node.js; local directories and `file:` URLs need `node.js` beside it.
 */

import { httpHierarchy, storeHierarchy } from "./hierarchies.js";
import { Sources } from "./sources.js";
import { ChunkManifestStore } from "./store.js";

export { ManifestError } from "./errors.js";
export { httpHierarchy } from "./hierarchies.js";
export { ChunkManifestStore } from "./store.js";

/** @type {import("./partitions.js").Limits} */
export const DEFAULT_LIMITS = {
  manifestBytes: 256 * 1024 * 1024,
  entries: 5_000_000,
  inlineBytes: 128 * 1024 * 1024,
  pathLength: 8192,
  nesting: 64,
  partitions: 10_000,
  cachedPartitions: 64,
};

/**
 * @typedef {object} Options
 * @property {(string | import("./allowed.js").Access)[]} [allow] URL prefixes that may be read besides
 *   the hierarchy; by default none
 * @property {string | null} [base] overrides the `base` of all declarations; relative to the hierarchy's root
 * @property {"auto" | "always" | "never"} [verify] whether checksums are verified: on whole chunks
 *   (`auto`), on parts as well, by reading the whole (`always`), or not at all
 * @property {"fill" | "error"} [missing] what reading a missing chunk does
 * @property {boolean} [consolidated] whether metadata are taken from the root's consolidated ones, where
 *   all arrays are of one state; by default, they are
 * @property {Partial<import("./partitions.js").Limits>} [limits]
 * @property {typeof globalThis.fetch} [fetch] for the hierarchy and all prefixes without their own
 * @property {import("./sources.js").ReadObject} [files] reads `file:` URLs: `readFile` of `node.js`
 */

/**
 * A store for zarrita's `open` and `get`, in which manifest arrays can be read like others.
 *
 * ```js
 * import * as zarr from "zarrita";
 * import { withChunkManifests } from "chunk-manifest-json";
 *
 * const store = withChunkManifests("https://example.org/data.zarr", {
 *   allow: ["https://archive.example.org/2024/"],
 * });
 * const array = await zarr.open(zarr.root(store).resolve("sst"), { kind: "array" });
 * const { data, shape } = await zarr.get(array);
 * ```
 *
 * @param {string | URL | import("./hierarchies.js").Hierarchy | {get: Function}} hierarchy a URL, a
 *   `directory` of `node.js`, or any readable store of zarrita (which is asked for whole objects)
 * @param {Options} [options]
 * @returns {ChunkManifestStore}
 */
export function withChunkManifests(hierarchy, options = {}) {
  const { allow = [], base = null, verify = "auto", missing = "fill", fetch, files } = options;
  const { consolidated = true } = options;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const sources = new Sources({ allow, hierarchy: asHierarchy(hierarchy, fetch), fetch, files });
  return new ChunkManifestStore({ base, verify, limits, sources }, missing, consolidated);
}

function asHierarchy(hierarchy, fetch) {
  if (typeof hierarchy === "string" || hierarchy instanceof URL) {
    return httpHierarchy(hierarchy, { fetch });
  }
  return "read" in hierarchy ? hierarchy : storeHierarchy(hierarchy);
}
