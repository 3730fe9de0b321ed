/** The blocks of a partitioned manifest: their names, and which of them have a document. Pure. */

import { canonicalKey, chunkKeyReader, compareIndices, gridIndices, isInGrid } from "./chunk-keys.js";
import { isObject } from "./configuration.js";
import { ManifestError } from "./errors.js";

/**
 * The blocks whose documents exist: all of them, those named (in the block grid, by name, in C
 * order), or null if nothing says which do.
 * @typedef {"all" | Map<string, number[]> | null} Documented
 */

/**
 * Number of blocks in every dimension.
 * @param {number[]} gridShape of the chunk grid
 * @param {number[]} partitionShape
 */
export function blockGrid(gridShape, partitionShape) {
  return gridShape.map((n, axis) => Math.ceil(n / partitionShape[axis]));
}

/**
 * Check the names of `partitions`, and find their blocks (step 2 of "Precedence").
 * @param {import("./configuration.js").Declaration["partitions"]} partitions as the declaration says
 * @param {number[]} grid of blocks
 * @returns {Documented}
 */
export function documentedBlocks(partitions, grid) {
  if (partitions === null || partitions === "all") return partitions;
  const names = namesIn(partitions);
  const readName = nameReader(grid.length);
  const named = names.map((name) => ({ name, block: readName(name) }));
  if (new Set(names).size < names.length) throw invalid("partitions names a block twice");
  return new Map(
    named
      .filter(({ block }) => isInGrid(block, grid))
      .sort((a, b) => compareIndices(a.block, b.block))
      .map(({ name, block }) => [name, block]),
  );
}

/** @returns {string[]} */
function namesIn(partitions) {
  return isObject(partitions) ? Object.keys(partitions) : partitions;
}

/** Names of blocks look like canonical keys of chunks. */
function nameReader(dimensions) {
  const shape = Array.from({ length: dimensions }, () => 0);
  const read = chunkKeyReader({ shape, keyEncoding: { name: "v2", separator: "." } }, { own: true });
  return (name) => {
    const block = read(name);
    if (block === null) throw invalid(`partitions: ${JSON.stringify(name)} is not the name of a block`);
    return block;
  };
}

/**
 * Names in `partitions` that name no block of the array, which only validators report.
 * @param {import("./configuration.js").Declaration["partitions"]} partitions
 * @param {Documented} documented
 * @returns {ManifestError[]}
 */
export function outsideBlocks(partitions, documented) {
  if (!(documented instanceof Map)) return [];
  return namesIn(partitions)
    .filter((name) => !documented.has(name))
    .map((name) => invalid(`partitions: the block ${JSON.stringify(name)} is outside the grid of blocks`));
}

/**
 * The blocks that may have a document, in C order.
 * @param {Documented} documented
 * @param {number[]} grid of blocks
 * @param {number} limit of documents to ask for
 * @returns {Iterable<number[]>}
 */
export function blocksToAsk(documented, grid, limit) {
  const listed = documented instanceof Map;
  const count = listed ? documented.size : grid.reduce((product, n) => product * n, 1);
  if (count > limit) {
    throw new ManifestError("limit_exceeded", `the manifest has ${count} partitions, the limit is ${limit}`);
  }
  return listed ? documented.values() : gridIndices(grid);
}

/**
 * Whether a document that is not there is a lost one.
 * @param {Documented} documented
 * @param {number[]} block
 */
export function mustExist(documented, block) {
  return documented === "all" || (documented instanceof Map && documented.has(canonicalKey(block)));
}

/**
 * Whether a block is said to have no document.
 * @param {Documented} documented
 * @param {number[]} block
 */
export function hasNoDocument(documented, block) {
  return documented instanceof Map && !documented.has(canonicalKey(block));
}

function invalid(detail) {
  return new ManifestError("invalid_configuration", detail);
}
