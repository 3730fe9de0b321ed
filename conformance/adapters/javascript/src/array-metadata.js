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

const REQUIRED = ["zarr_format", "node_type", "data_type", "fill_value", "codecs"];

/**
 * Shape, chunk grid and chunk key encoding first, in the order of "Precedence" (step 2).
 * @param {Record<string, any>} metadata the array's `zarr.json`
 * @returns {Layout}
 */
export function readLayout(metadata) {
  const { shape } = metadata;
  require(Array.isArray(shape) && shape.every(isSize), "shape is not a list of sizes");
  const chunkShape = readChunkShape(metadata.chunk_grid, shape.length);
  const keyEncoding = readKeyEncoding(metadata.chunk_key_encoding);
  checkOthers(metadata, shape.length);
  const gridShape = shape.map((size, axis) => Math.ceil(size / chunkShape[axis]));
  return { shape, chunkShape, gridShape, keyEncoding };
}

function checkOthers(metadata, dimensions) {
  const missing = REQUIRED.filter((name) => !Object.hasOwn(metadata, name));
  require(missing.length === 0, `the array's metadata has no ${missing.join(", ")}`);
  require(metadata.fill_value !== null, "the fill value is null");
  require(metadata.zarr_format === 3 && metadata.node_type === "array", "not a Zarr v3 array");
  require(extension(metadata.data_type, "data_type").name !== "", "data_type has no name");
  require(
    Array.isArray(metadata.codecs) && metadata.codecs.length > 0,
    "codecs is not a list of codecs",
  );
  metadata.codecs.forEach((codec) => extension(codec, "codecs"));
  checkOptional(metadata, dimensions);
}

function readChunkShape(grid, dimensions) {
  const { name, configuration } = extension(grid, "chunk_grid");
  if (name !== "regular") {
    throw new ManifestError(
      "unsupported_transformer",
      `the chunk grid ${JSON.stringify(name)} is not known; known: regular`,
    );
  }
  const { chunk_shape: shape, ...others } = configuration;
  require(Object.keys(others).length === 0, `chunk_grid has an unknown ${Object.keys(others)[0]}`);
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
  const { separator = name === "default" ? "/" : ".", ...others } = configuration;
  require(Object.keys(others).length === 0, `chunk_key_encoding has an unknown ${Object.keys(others)[0]}`);
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
  const { configuration = {} } = value;
  require(isObject(configuration), `the configuration of ${member} is not an object`);
  return { name: value.name, configuration };
}

function isSize(value) {
  return Number.isSafeInteger(value) && value >= 0;
}

function require(condition, detail) {
  if (!condition) throw new ManifestError("invalid_configuration", detail);
}
