/**
 * A chunk that decodes to too few bytes is an error.
 *
 * zarrita takes what it gets: where an entry's `length` is too small, or a source is not what its
 * manifest says, the rest of the chunk would read as zeros. A store cannot see that, a codec can.
 */

/**
 * Make zarrita check the size of decoded chunks, of all arrays of this page or process.
 * @param {Map<string, Function>} registry `registry` of zarrita
 */
export function checkChunkSizes(registry) {
  const load = registry.get("bytes");
  registry.set("bytes", async () => {
    const Codec = await load();
    return { fromConfig: (configuration, meta) => checked(Codec.fromConfig(configuration, meta), meta) };
  });
}

function checked(codec, { shape }) {
  const size = shape.reduce((product, n) => product * n, 1);
  const decode = codec.decode.bind(codec);
  codec.decode = (bytes) => {
    const chunk = decode(bytes);
    if (chunk.data.length !== size) {
      throw new Error(`a chunk has ${chunk.data.length} elements where its shape says ${size}`);
    }
    return chunk;
  };
  return codec;
}
