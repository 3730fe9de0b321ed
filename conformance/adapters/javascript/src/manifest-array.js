/**
 * One manifest array: answers requests for its chunks from its manifest, and from nothing else.
 */

import { readLayout } from "./array-metadata.js";
import { blockGrid, documentedBlocks } from "./blocks.js";
import { blockOf, canonicalKey, compareIndices, encodeKey, isInGrid } from "./chunk-keys.js";
import { verifyChecksum } from "./checksums.js";
import { documentReference, raise } from "./configuration.js";
import { decodeInline, inlineSize } from "./entries.js";
import { locating, ManifestError } from "./errors.js";
import { display, nodeLocation, resolveBase, resolveObject, resolveOverride } from "./locations.js";
import { blocks, Partitions } from "./partitions.js";
import { cut, interval, wanted } from "./ranges.js";

/**
 * @typedef {import("./document.js").Entry} Entry
 * @typedef {import("./ranges.js").Range} Range
 */

/**
 * @typedef {object} Policy
 * @property {string | null} base overrides the declarations' base; relative to the hierarchy's root
 * @property {"auto" | "always" | "never"} verify
 * @property {import("./partitions.js").Limits} limits
 * @property {import("./sources.js").Sources} sources
 */

/**
 * Check what `zarr.json` says (step 2 of "Precedence").
 * @param {string} path
 * @param {Record<string, any>} metadata
 * @param {import("./configuration.js").Declaration} declaration
 * @param {Policy} policy
 * @param {import("./configuration.js").Report} [report]
 * @returns {import("./partitions.js").ArrayContext | null} null if anything is wrong
 */
export function arrayContext(path, metadata, declaration, policy, report = raise) {
  const { base: override, limits, sources } = policy;
  const attempt = (check) => attempting(check, report);
  const own = nodeLocation(path, sources.root);
  const layout = attempt(() => readLayout(metadata));
  const documented = layout && attempt(() => readDocumented(declaration, layout));
  const stated = attempt(() => resolveBase(declaration.base, own));
  const base = override === null ? stated : attempt(() => resolveOverride(override, sources.root));
  const checked = attempt(() => checkReference(declaration, own));
  if ([layout, documented, stated, base, checked].includes(undefined)) return null;
  return { path, layout, declaration, documented, own, base, sources, limits };
}

/** What a check returns; undefined if it raised something, which is reported. */
function attempting(check, report) {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    report(error.at({ phase: "declaration" }));
    return undefined;
  }
}

/** Which blocks have a document, as `partition_shape` and `partitions` say. */
function readDocumented({ partitionShape, partitions }, { shape, gridShape }) {
  if (partitionShape === null) return null;
  if (partitionShape.length !== shape.length) {
    throw new ManifestError(
      "invalid_configuration",
      `partition_shape has ${partitionShape.length} dimensions, the array ${shape.length}`,
    );
  }
  return documentedBlocks(partitions, blockGrid(gridShape, partitionShape));
}

/** Which block and which digest it is cannot change whether the reference of a document is usable. */
function checkReference({ manifest, partitionShape }, own) {
  if (typeof manifest !== "string") return null;
  return resolveObject(documentReference(manifest, partitionShape && [0], ANY_CHECKSUM), own);
}

const ANY_CHECKSUM = `sha256:${"0".repeat(64)}`;

/** A manifest array of an open hierarchy. */
export class ManifestArray {
  #context;
  #partitions;
  #verify;
  #authorised = new WeakSet();

  /**
   * @param {import("./partitions.js").ArrayContext} context
   * @param {Policy["verify"]} verify
   */
  constructor(context, verify) {
    this.#context = context;
    this.#partitions = new Partitions(context);
    this.#verify = verify;
  }

  get layout() {
    return this.#context.layout;
  }

  /**
   * Encoded bytes of a chunk, or of a part of it.
   * @param {number[]} index
   * @param {Range} range
   * @param {AbortSignal} [signal]
   * @returns {Promise<{bytes: Uint8Array} | {none: "missing" | "empty"}>}
   */
  async getChunk(index, range, signal) {
    const { path, layout } = this.#context;
    if (!isInGrid(index, layout.gridShape)) return { none: "missing" };
    return locating({ array: path }, async () => {
      const entries = await this.#entriesFor(index);
      signal?.throwIfAborted();
      const key = canonicalKey(index);
      return locating({ chunk: key }, async () => {
        this.#authorise(entries);
        const entry = entries.get(key);
        if (entry === undefined) return { none: "missing" };
        if (entry.empty) return { none: "empty" };
        return { bytes: await this.#readEntry(entry, range, signal) };
      });
    });
  }

  /**
   * Keys of the chunks that exist, in C order: canonical ones, and those of the array's encoding.
   * @returns {Promise<{index: number[], canonical: string, key: string}[]>}
   */
  async listChunks() {
    const { path, layout } = this.#context;
    return locating({ array: path }, async () => {
      const found = [];
      for (const block of blocks(this.#context)) {
        for (const canonical of (await this.#partitions.entries(block)).keys()) {
          const index = layout.shape.length === 0 ? [] : canonical.split(".").map(Number);
          found.push({ index, canonical, key: encodeKey(index, layout.keyEncoding) });
        }
      }
      return found.sort((a, b) => compareIndices(a.index, b.index));
    });
  }

  #entriesFor(index) {
    const { partitionShape } = this.#context.declaration;
    return this.#partitions.entries(partitionShape === null ? null : blockOf(index, partitionShape));
  }

  /** Step 9 of "Precedence": all locations of the document at once, before any is read. */
  #authorise(entries) {
    if (this.#authorised.has(entries)) return;
    const locations = [...entries.values()].map((entry) => entry.location).filter(Boolean);
    this.#context.sources.authorise(locations);
    this.#authorised.add(entries);
  }

  async #readEntry(entry, range, signal) {
    const whole = range === null || (this.#verify === "always" && entry.checksum !== undefined);
    const bytes = await this.#readRange(entry, whole ? null : range, signal);
    if (whole && this.#verify !== "never" && entry.checksum !== undefined) {
      locating({ location: entry.location && display(entry.location) }, () =>
        verifyChecksum(entry.checksum, bytes),
      );
    }
    return range !== null && whole ? bytes.subarray(...interval(range, bytes.length)) : bytes;
  }

  async #readRange(entry, range, signal) {
    if (entry.data !== undefined) {
      return decodeInline(entry.data).subarray(...interval(range, inlineSize(entry.data)));
    }
    const asked = wanted(entry, range);
    const nothing = asked !== null && ("last" in asked ? asked.last === 0 : "end" in asked && asked.end <= asked.start);
    if (nothing) return new Uint8Array(0);
    const { location, conditions } = entry;
    const answer = await this.#context.sources.read(location, asked, {
      phase: "chunk", conditions, signal,
    });
    return locating({ location: display(location) }, () => cut(entry, range, answer));
  }
}
