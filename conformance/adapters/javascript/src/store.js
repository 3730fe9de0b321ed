/**
 * The store that zarrita works on: an ordinary hierarchy, in which the chunks of some arrays come
 * from manifests.
 */

import { chunkKeyReader, encodeKey, gridIndices } from "./chunk-keys.js";
import { isObject, readDeclaration } from "./configuration.js";
import { aheadOf, copyOf, pathsAbove } from "./consolidated.js";
import { readLayout } from "./array-metadata.js";
import { checkChunkSizes } from "./chunk-sizes.js";
import { locating, ManifestError } from "./errors.js";
import { parseMetadata } from "./json.js";
import { arrayContext, ManifestArray } from "./manifest-array.js";

/** @typedef {import("./ranges.js").Range} Range */

const METADATA = "zarr.json";
const SHARDING = "sharding_indexed";

/**
 * An array: native, or with a manifest.
 * @typedef {object} ArrayNode
 * @property {Record<string, any>} metadata
 * @property {(key: string) => number[] | null} readKey reads the array's own chunk keys
 * @property {ManifestArray | null} manifest
 */

/**
 * An array, or a group or nothing of Zarr v3.
 * @typedef {ArrayNode | {metadata: Record<string, any> | null, readKey: null, manifest: null}} Node
 */

/** Implements zarrita's AsyncReadable. */
export class ChunkManifestStore {
  /**
   * What zarrita's `open` adds to the arrays of this store.
   * @type {import("zarrita").ArrayExtension[]}
   */
  arrayExtensions = [checkChunkSizes];
  #policy;
  #missing;
  #copies;
  /** @type {Map<string, Promise<Node>>} */
  #nodes = new Map();

  /**
   * @param {import("./manifest-array.js").Policy} policy
   * @param {"fill" | "error"} missing
   * @param {boolean} copies whether metadata are taken from the root's consolidated ones
   */
  constructor(policy, missing, copies) {
    this.#policy = policy;
    this.#missing = missing;
    this.#copies = copies;
  }

  /**
   * @param {`/${string}`} key
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<Uint8Array | undefined>}
   */
  async get(key, { signal } = {}) {
    const path = key.slice(1);
    if (path !== METADATA && !path.endsWith(`/${METADATA}`)) return this.#read(path, null, signal);
    const { metadata } = await this.#node(path.slice(0, -METADATA.length - 1));
    return metadata === null ? undefined : new TextEncoder().encode(JSON.stringify(metadata));
  }

  /**
   * @param {`/${string}`} key
   * @param {{offset: number, length: number} | {suffixLength: number}} range
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<Uint8Array | undefined>}
   */
  async getRange(key, range, { signal } = {}) {
    const asked =
      "suffixLength" in range
        ? await this.#suffix(key.slice(1), range.suffixLength)
        : { start: range.offset, end: range.offset + range.length };
    return this.#read(key.slice(1), asked, signal);
  }

  /**
   * This store as seen from one node, which is its root there. For arrays whose names zarrita would
   * take for URLs: it decodes what looks percent-encoded, and cuts at `?` and `#`.
   * @param {string} path of the node
   * @returns {Pick<ChunkManifestStore, "arrayExtensions" | "get" | "getRange">}
   */
  rootedAt(path) {
    /** @returns {`/${string}`} */
    const below = (key) => `/${join(path, key.slice(1))}`;
    return {
      arrayExtensions: this.arrayExtensions,
      get: (key, options) => this.get(below(key), options),
      getRange: (key, range, options) => this.getRange(below(key), range, options),
    };
  }

  /**
   * Chunks cannot be written through a manifest, and this store writes nothing else either.
   * @param {`/${string}`} key
   */
  async set(key) {
    throw new ManifestError("read_only", "this store does not write", { location: key.slice(1) });
  }

  /**
   * Encoded bytes of a chunk, or of a part of it; undefined for one that is missing or empty.
   * @param {string} array path of the array
   * @param {number[]} index
   * @param {Range} [range]
   * @returns {Promise<Uint8Array | undefined>}
   */
  async getChunk(array, index, range = null) {
    const { manifest, metadata } = await this.#arrayNode(array);
    if (manifest === null) {
      return this.#native(join(array, encodeKey(index, readLayout(metadata).keyEncoding)), range, "chunk");
    }
    const chunk = await manifest.getChunk(index, range);
    return "bytes" in chunk ? chunk.bytes : undefined;
  }

  /**
   * Canonical keys of the chunks of an array that exist, in C order. Those of a native array are
   * looked for one by one.
   * @param {string} array path of the array
   * @returns {Promise<string[]>}
   */
  async listChunks(array) {
    const { manifest, metadata } = await this.#arrayNode(array);
    if (manifest !== null) return (await manifest.listChunks()).map(({ canonical }) => canonical);
    const found = [];
    const { gridShape, keyEncoding } = readLayout(metadata);
    for (const index of gridIndices(gridShape)) {
      const chunk = await this.#native(join(array, encodeKey(index, keyEncoding)), null, "chunk");
      if (chunk !== undefined) found.push(index.join(".") || "0");
    }
    return found;
  }

  /**
   * zarrita asks for a suffix only where a shard's index is, and always takes it to be at the end:
   * an index at the start would be read from the wrong bytes, without an error.
   */
  async #suffix(path, length) {
    const owner = await this.#owner(path);
    const sharding = owner?.node.metadata.codecs?.find?.((codec) => codec?.name === SHARDING);
    const atStart = sharding?.configuration?.index_location === "start";
    return atStart ? { start: 0, end: length } : { last: length };
  }

  /** @returns {Promise<ArrayNode>} */
  async #arrayNode(array) {
    const node = await this.#node(array);
    if (node.readKey === null) throw new Error(`${JSON.stringify(array)} is not a Zarr v3 array`);
    return node;
  }

  /** Answer for a key that is not metadata of Zarr v3. */
  async #read(path, range, signal) {
    const owner = await this.#owner(path);
    const index = owner?.node.readKey(path.slice(owner.path === "" ? 0 : owner.path.length + 1));
    if (!owner || !index) return this.#native(path, range, "chunk", signal);
    /** @type {{bytes?: Uint8Array, none?: "missing" | "empty"}} */
    const chunk = owner.node.manifest
      ? await owner.node.manifest.getChunk(index, range, signal)
      : { bytes: await this.#native(path, range, "chunk", signal) };
    if (chunk.bytes === undefined && this.#missing === "error" && chunk.none !== "empty") {
      throw new ManifestError("missing_chunk", "the chunk is missing", {
        array: owner.path,
        chunk: index.join(".") || "0",
      });
    }
    return chunk.bytes;
  }

  /**
   * The array that a key belongs to: arrays hold no nodes, so the first one on the way.
   * @returns {Promise<{path: string, node: ArrayNode} | null>}
   */
  async #owner(path) {
    for (const candidate of pathsAbove(path)) {
      const node = await this.#node(candidate);
      if (node.readKey !== null) return { path: candidate, node };
    }
    return null;
  }

  /** Shared by all who ask, so none of them can abort it. @returns {Promise<Node>} */
  #node(path) {
    let loading = this.#nodes.get(path);
    if (loading === undefined) {
      loading = this.#loadNode(path);
      this.#nodes.set(path, loading);
      loading.catch(() => this.#nodes.delete(path));
    }
    return loading;
  }

  async #loadNode(path) {
    const metadata = await this.#loadMetadata(path);
    if (!isObject(metadata) || metadata.node_type !== "array") {
      return { metadata, readKey: null, manifest: null };
    }
    return locating({ array: path }, () => {
      const declaration = readDeclaration(metadata);
      if (declaration === null) {
        return { metadata, readKey: nativeKeyReader(metadata), manifest: null };
      }
      // A problem would have been raised.
      const context = /** @type {import("./partitions.js").ArrayContext} */ (
        arrayContext(path, metadata, declaration, this.#policy)
      );
      const manifest = new ManifestArray(context, this.#policy.verify);
      return { metadata, readKey: chunkKeyReader(context.layout, { own: true }), manifest };
    });
  }

  /** From the root's consolidated metadata, or the node's own; null if there is no such node. */
  async #loadMetadata(path) {
    const root = this.#copies && path !== "" ? await this.#node("") : null;
    const copy = copyOf(root?.metadata, path);
    if (copy !== undefined) return copy;
    const group = async (above) => ({ path: above, metadata: (await this.#node(above)).metadata });
    const above = await Promise.all(pathsAbove(path).map(group));
    // After the groups: what they say is pending may have been written meanwhile.
    const bytes = await this.#native(join(path, METADATA), null, "declaration");
    const ahead = aheadOf(above, path, bytes);
    if (ahead !== undefined) return ahead;
    return bytes === undefined ? null : parseMetadata(path, bytes);
  }

  /** An object of the hierarchy that no manifest stands for; undefined if there is none. */
  async #native(path, range, phase, signal) {
    try {
      return (await this.#policy.sources.readKey(path, range, { phase, signal })).bytes;
    } catch (error) {
      if (error instanceof ManifestError && error.code === "source_not_found") return undefined;
      throw error;
    }
  }
}

/** Native arrays are zarrita's to check: of theirs, only keys that it can ask for count. */
function nativeKeyReader(metadata) {
  try {
    return chunkKeyReader(readLayout(metadata), { own: true });
  } catch (error) {
    if (error instanceof ManifestError) return () => null;
    throw error;
  }
}

function join(path, name) {
  return path === "" ? name : `${path}/${name}`;
}
