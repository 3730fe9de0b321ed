/**
 * What the reader needs of an array's metadata: the chunk grid and the chunk key encoding.
 * The rest is checked only so far that an array which is not valid Zarr v3 is refused.
 */

import { isObject } from "./configuration.js";
import { ManifestError } from "./errors.js";

/**
 * @typedef {object} Layout
 * @property {number[]} shape
 * @property {number[]} chunkShape
 * @property {number[]} gridShape number of chunks in every dimension
 * @property {{name: "default" | "v2", separator: string}} keyEncoding
 */

const REQUIRED = [
  "zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding",
  "fill_value", "codecs",
];

/**
 * @param {Record<string, unknown>} metadata the array's `zarr.json`
 * @returns {Layout}
 */
export function readLayout(metadata) {
  const missing = REQUIRED.filter((name) => !Object.hasOwn(metadata, name));
  require(missing.length === 0, `the array's metadata has no ${missing.join(", ")}`);
  require(metadata.zarr_format === 3 && metadata.node_type === "array", "not a Zarr v3 array");
  const { shape } = metadata;
  require(Array.isArray(shape) && shape.every(isSize), "shape is not a list of sizes");
  const dataType = extension(metadata.data_type, "data_type");
  require(dataType.name !== "", "data_type has no name");
  require(
    Array.isArray(metadata.codecs) && metadata.codecs.length > 0,
    "codecs is not a list of codecs",
  );
  metadata.codecs.forEach((codec) => extension(codec, "codecs"));
  checkOptional(metadata, shape.length);
  const chunkShape = readChunkShape(metadata.chunk_grid, shape.length);
  return {
    shape,
    chunkShape,
    gridShape: shape.map((size, axis) => Math.ceil(size / chunkShape[axis])),
    keyEncoding: readKeyEncoding(metadata.chunk_key_encoding),
  };
}

function readChunkShape(grid, dimensions) {
  const { name, configuration } = extension(grid, "chunk_grid");
  if (name !== "regular") {
    throw new ManifestError(
      "unsupported_transformer",
      `the chunk grid ${JSON.stringify(name)} is not known; known: regular`,
    );
  }
  const shape = configuration.chunk_shape;
  require(
    Array.isArray(shape) && shape.length === dimensions && shape.every((n) => isSize(n) && n > 0),
    "chunk_shape is not a list of positive integers, one for each dimension",
  );
  return shape;
}

function readKeyEncoding(encoding) {
  const { name, configuration } = extension(encoding, "chunk_key_encoding");
  if (name !== "default" && name !== "v2") {
    throw new ManifestError(
      "unsupported_transformer",
      `the chunk key encoding ${JSON.stringify(name)} is not known; known: default, v2`,
    );
  }
  const separator = configuration.separator ?? (name === "default" ? "/" : ".");
  require(separator === "/" || separator === ".", "the separator of chunk keys is not / or .");
  return { name, separator };
}

function checkOptional(metadata, dimensions) {
  const { attributes, dimension_names: names } = metadata;
  require(attributes === undefined || isObject(attributes), "attributes is not an object");
  require(
    names === undefined ||
      (Array.isArray(names) &&
        names.length === dimensions &&
        names.every((name) => name === null || typeof name === "string")),
    "dimension_names is not a list of names, one for each dimension",
  );
}

/** An extension is an object with a name, or a name alone. */
function extension(value, member) {
  if (typeof value === "string") return { name: value, configuration: {} };
  require(isObject(value) && typeof value.name === "string", `${member} has no name`);
  const configuration = value.configuration ?? {};
  require(isObject(configuration), `the configuration of ${member} is not an object`);
  return { name: value.name, configuration };
}

function isSize(value) {
  return Number.isSafeInteger(value) && value >= 0;
}

function require(condition, detail) {
  if (!condition) throw new ManifestError("invalid_configuration", detail);
}
