/** Chunk keys and grid indices. Pure. */

/** @typedef {import("./array-metadata.js").Layout} Layout */

const NUMBER = "(?:0|[1-9][0-9]*)";

/**
 * The canonical key of a chunk: `0.3.7`, and `0` for a zero-dimensional array.
 * @param {number[]} index
 */
export function canonicalKey(index) {
  return index.join(".") || "0";
}

/**
 * The key that the array's own chunk key encoding gives a chunk.
 * @param {number[]} index
 * @param {Layout["keyEncoding"]} encoding
 */
export function encodeKey(index, { name, separator }) {
  return name === "default" ? ["c", ...index].join(separator) : index.join(separator) || "0";
}

/**
 * Reads chunk keys of one array: what it returns maps a key to a grid index, or to null if the key is
 * none. Both spellings are read, the canonical one and the array's own, or with `own` only the latter.
 * A number above 2^53-1 is no grid index: it would be rounded to one that the key does not say.
 * @param {Pick<Layout, "shape" | "keyEncoding">} layout
 * @param {{own?: boolean}} [options]
 * @returns {(key: string) => number[] | null}
 */
export function chunkKeyReader({ shape, keyEncoding }, { own = false } = {}) {
  const patterns = [keyPattern(shape.length, keyEncoding)];
  if (!own) patterns.push(keyPattern(shape.length, { name: "v2", separator: "." }));
  return (key) => {
    if (!patterns.some((pattern) => pattern.test(key))) return null;
    if (shape.length === 0) return [];
    const index = (key.match(/[0-9]+/g) ?? []).map(Number);
    return index.every(Number.isSafeInteger) ? index : null;
  };
}

function keyPattern(dimensions, { name, separator }) {
  const parts = Array.from({ length: dimensions }, () => NUMBER);
  if (name === "default") parts.unshift("c");
  else if (dimensions === 0) parts.push("0");
  return new RegExp(`^${parts.join(separator === "." ? "\\." : "/")}$`);
}

/**
 * @param {number[]} index
 * @param {number[]} gridShape
 */
export function isInGrid(index, gridShape) {
  return index.every((number, axis) => number < gridShape[axis]);
}

/**
 * Order of chunks in C order, for sorting.
 * @param {number[]} a
 * @param {number[]} b
 */
export function compareIndices(a, b) {
  for (let axis = 0; axis < a.length; axis++) {
    if (a[axis] !== b[axis]) return a[axis] - b[axis];
  }
  return 0;
}

/**
 * The block that a chunk belongs to.
 * @param {number[]} index
 * @param {number[]} partitionShape
 */
export function blockOf(index, partitionShape) {
  return index.map((number, axis) => Math.floor(number / partitionShape[axis]));
}

/**
 * All indices of a grid, in C order.
 * @param {number[]} gridShape
 * @returns {Generator<number[]>}
 */
export function* gridIndices(gridShape) {
  if (gridShape.includes(0)) return;
  const index = gridShape.map(() => 0);
  for (;;) {
    yield [...index];
    let axis = gridShape.length - 1;
    while (axis >= 0 && ++index[axis] === gridShape[axis]) index[axis--] = 0;
    if (axis < 0) return;
  }
}
