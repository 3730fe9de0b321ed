/** Metadata of small arrays, for tests. */

/** The bytes of one chunk. */
export const VALUE = new Uint8Array(BigInt64Array.of(7n).buffer);

/**
 * The `zarr.json` of an array of four chunks of one int64 each; native without a configuration.
 * @param {Record<string, unknown>} [configuration] of the declaration
 */
export function arrayMetadata(configuration) {
  return {
    zarr_format: 3, node_type: "array", shape: [4], data_type: "int64", fill_value: -1, attributes: {},
    chunk_grid: { name: "regular", configuration: { chunk_shape: [1] } },
    chunk_key_encoding: { name: "default", configuration: { separator: "/" } },
    codecs: [{ name: "bytes", configuration: { endian: "little" } }],
    storage_transformers: configuration && [{ name: "chunk-manifest-json", configuration }],
  };
}
