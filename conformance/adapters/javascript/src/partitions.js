/**
 * The documents of one array's manifest: each is loaded when it is touched, and once while it stays
 * in a bounded cache.
 */

import { blockGrid, blocksToAsk, hasNoDocument, mustExist } from "./blocks.js";
import { canonicalKey } from "./chunk-keys.js";
import { decodeDocument } from "./codecs.js";
import { documentChecksum, verifyChecksum } from "./checksums.js";
import { checksumOf, documentReference, raise } from "./configuration.js";
import { readDocument } from "./document.js";
import { locating, ManifestError } from "./errors.js";
import { checkNesting, checkSurrogates, decodeText, parseDocument } from "./json.js";
import { display, resolveObject } from "./locations.js";

/**
 * @typedef {import("./document.js").Entry} Entry
 * @typedef {{bytes: Uint8Array} | {missing: true} | {inline: Record<string, any>}} Stored
 */

/**
 * What a reader needs to know of one array.
 * @typedef {object} ArrayContext
 * @property {string} path
 * @property {import("./array-metadata.js").Layout} layout
 * @property {import("./configuration.js").Declaration} declaration
 * @property {import("./blocks.js").Documented} documented
 * @property {import("./locations.js").Location} own the array's own location
 * @property {import("./locations.js").Location} base
 * @property {import("./sources.js").Sources} sources
 * @property {Limits} limits
 */

/**
 * @typedef {object} Limits
 * @property {number} manifestBytes of a document, stored and decoded
 * @property {number} entries of a document
 * @property {number} inlineBytes of all inline data of a document
 * @property {number} pathLength of a path, an etag or a version, in code points
 * @property {number} nesting
 * @property {number} partitions documents that are asked for where all are needed: to list, to validate
 * @property {number} cachedPartitions documents of a partitioned manifest that are kept
 */

/** The documents of an array's manifest. */
export class Partitions {
  #context;
  /** @type {Map<string, Promise<Map<string, Entry>>>} the least recently used first */
  #loaded = new Map();

  /** @param {ArrayContext} context */
  constructor(context) {
    this.#context = context;
  }

  /**
   * The entries of the document that owns a block; `null` for a manifest without partitions.
   * Loading is shared by all who ask, so none of them can abort it.
   * @param {number[] | null} block
   * @returns {Promise<Map<string, Entry>>}
   */
  entries(block) {
    const name = block === null ? "" : canonicalKey(block);
    const known = this.#loaded.get(name);
    this.#loaded.delete(name);
    const loading = known ?? this.#load(block);
    this.#loaded.set(name, loading);
    if (!known) loading.catch(() => this.#forget(name, loading));
    if (this.#loaded.size > this.#context.limits.cachedPartitions) {
      this.#loaded.delete(this.#loaded.keys().next().value ?? "");
    }
    return loading;
  }

  /** What failed is tried again when it is asked for again. */
  #forget(name, loading) {
    if (this.#loaded.get(name) === loading) this.#loaded.delete(name);
  }

  async #load(block) {
    const { layout, base, limits, declaration, documented } = this.#context;
    if (block !== null && hasNoDocument(documented, block)) return new Map();
    const stored = await fetchDocument(this.#context, block);
    if ("missing" in stored) return new Map();
    const document = "bytes" in stored ? parseDocument(decodeText(stored.bytes)) : stored.inline;
    const partition = block === null ? null : { shape: declaration.partitionShape, block };
    return readDocument(document, { layout, base, limits, partition });
  }
}

/**
 * The blocks of an array that may have a document, in C order: one, `null`, for a manifest without
 * partitions.
 * @param {ArrayContext} context
 * @returns {Iterable<number[] | null>}
 */
export function blocks({ layout, documented, limits, declaration: { partitionShape } }) {
  if (partitionShape === null) return [null];
  return blocksToAsk(documented, blockGrid(layout.gridShape, partitionShape), limits.partitions);
}

/**
 * Where the document of a block lies.
 * @param {ArrayContext} context
 * @param {number[] | null} block
 */
export function documentLocation({ declaration, own }, block) {
  const manifest = /** @type {string} */ (declaration.manifest);
  return resolveObject(documentReference(manifest, block, checksumOf(declaration, block)), own);
}

/**
 * The decoded bytes of a document, or the inline manifest (step 3 of "Precedence").
 * @param {ArrayContext} context
 * @param {number[] | null} block
 * @param {import("./configuration.js").Report} [report] is told of another checksum
 * @returns {Promise<Stored>}
 */
export async function fetchDocument(context, block, report = raise) {
  const { declaration, sources, limits } = context;
  if (typeof declaration.manifest !== "string") return checkInline(declaration.manifest, limits);
  const location = documentLocation(context, block);
  return locating({ phase: "manifest", location: display(location) }, async () => {
    sources.authorise([location]);
    const checksum = checksumOf(declaration, block);
    const stored = await readUncached(sources, location, limits.manifestBytes, checksum);
    if (stored === null) {
      if (block !== null && !mustExist(context.documented, block)) return { missing: true };
      throw new ManifestError("manifest_not_found", "the manifest document does not exist");
    }
    if (checksum !== null) reporting(report, { location: display(location) }, () => verifyChecksum(checksum, stored));
    const bytes = await decodeDocument(stored, declaration.codecs, limits.manifestBytes);
    checkNesting(bytes, limits.nesting);
    return { bytes };
  });
}

/** An inline manifest is as large as the shortest document that says the same. */
function checkInline(inline, limits) {
  const text = JSON.stringify(inline);
  const bytes = new TextEncoder().encode(text);
  if (bytes.length > limits.manifestBytes) {
    throw new ManifestError("limit_exceeded", `the manifest has more than ${limits.manifestBytes} bytes`);
  }
  checkNesting(bytes, limits.nesting);
  checkSurrogates(text);
  return { inline };
}

/** The stored bytes of a document, from the server itself if a cache has others; null if there is none. */
async function readUncached(sources, location, limit, checksum) {
  const stored = await readStored(sources, location, { limit });
  if (stored === null || checksum === null || documentChecksum(stored) === checksum) return stored;
  return readStored(sources, location, { limit, pastCaches: true });
}

/** Run a check; what it raises is reported. */
function reporting(report, where, check) {
  try {
    check();
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    report(error.at({ phase: "manifest", ...where }));
  }
}

/** The stored bytes of a document; null if there is none. */
async function readStored(sources, location, options) {
  try {
    return (await sources.read(location, null, { phase: "manifest", ...options })).bytes;
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    if (error.code === "source_not_found") return null;
    if (PASSED_ON.includes(error.code)) throw error;
    throw new ManifestError("source_error", error.detail, { cause: error });
  }
}

/** Failures to read a document that have their own code; the others are `source_error`. */
const PASSED_ON = [
  "source_access_denied", "source_error", "location_not_allowed", "limit_exceeded", "short_read",
];
