/** Values of an array, read with zarrita: C order, little-endian, as the protocol wants them. */

import * as zarr from "zarrita";

/**
 * @param {import("zarrita").Location<import("zarrita").Readable>} location of the array
 * @returns {Promise<import("zarrita").Array<any>>}
 */
export function openArray(location) {
  return zarr.open.v3(location, { kind: "array" });
}

/**
 * @param {import("zarrita").Array<any>} array
 * @param {[number, number][] | null} selection
 * @returns {Promise<{shape: number[], data_type: string, data: string}>}
 */
export async function readValues(array, selection) {
  const chunk = await select(array, selection);
  return answer(array, chunk.shape, inCOrder(chunk));
}

/**
 * The answer for a selection without elements, which zarrita refuses; null for any other.
 * @param {import("zarrita").Array<any>} array
 * @param {[number, number][] | null} selection
 */
export function emptyValues(array, selection) {
  const shape = selection?.map(([start, stop]) => Math.max(0, stop - start)) ?? array.shape;
  return shape.includes(0) ? answer(array, shape, new Uint8Array(0)) : null;
}

function answer(array, shape, bytes) {
  const data = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  return { shape, data_type: array.dtype, data };
}

/** zarrita returns a zero-dimensional array as a scalar, and its only chunk as an array. */
async function select(array, selection) {
  if (array.shape.length === 0) return { ...(await array.getChunk([])), shape: [] };
  const slices = selection?.map(([start, stop]) => zarr.slice(start, stop)) ?? null;
  return zarr.get(array, slices);
}

/** zarrita keeps the order of dimensions in which the codecs stored the values. */
function inCOrder({ data, shape, stride }) {
  const size = shape.reduce((product, n) => product * n, 1);
  const source = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const width = data.BYTES_PER_ELEMENT;
  const target = new Uint8Array(size * width);
  const index = shape.map(() => 0);
  for (let element = 0; element < size; element++) {
    const from = index.reduce((sum, i, axis) => sum + i * stride[axis], 0) * width;
    target.set(source.subarray(from, from + width), element * width);
    for (let axis = shape.length - 1; axis >= 0 && ++index[axis] === shape[axis]; axis--) index[axis] = 0;
  }
  return target;
}
