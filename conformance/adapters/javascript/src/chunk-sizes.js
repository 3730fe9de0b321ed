/**
 * A chunk that decodes to too few elements is an error.
 *
 * zarrita takes what it gets: where an entry's `length` is too small, or a source is not what its
 * manifest says, the rest of the chunk would read as zeros. A store cannot see that, an array can.
 */

import { defineArrayExtension } from "zarrita";

/**
 * Applied by zarrita's `open` to every array of a store that names it in `arrayExtensions`; all
 * codecs from elements to elements keep their number.
 */
export const checkChunkSizes = defineArrayExtension((array) => ({
  /** @type {typeof array.getChunk} */
  async getChunk(index, ...options) {
    const chunk = await array.getChunk(index, ...options);
    const size = array.chunks.reduce((product, n) => product * n, 1);
    if (chunk.data.length === size) return chunk;
    throw new Error(
      `chunk ${index.join(".") || "0"} of ${array.path} has ${chunk.data.length} elements ` +
        `where its shape says ${size}`,
    );
  },
}));
