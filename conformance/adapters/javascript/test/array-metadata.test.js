/** Array metadata: what is unknown, what is malformed, and which of several errors counts. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { readLayout } from "../src/array-metadata.js";
import { arrayContext } from "../src/manifest-array.js";

const METADATA = {
  zarr_format: 3, node_type: "array", shape: [5], data_type: "int16", fill_value: 0,
  chunk_grid: { name: "regular", configuration: { chunk_shape: [2] } },
  chunk_key_encoding: { name: "default" },
  codecs: [{ name: "bytes" }],
};

test("the grid has as many chunks as cover the shape", () => {
  const layout = readLayout(METADATA);
  assert.deepEqual(layout.gridShape, [3]);
  assert.deepEqual(layout.keyEncoding, { name: "default", separator: "/" });
  assert.equal(readLayout({ ...METADATA, chunk_key_encoding: "v2" }).keyEncoding.separator, ".");
});

const UNKNOWN = "unsupported_transformer";
const INVALID = "invalid_configuration";

for (const [more, code] of [
  [{ chunk_grid: "rectilinear" }, UNKNOWN],
  [{ chunk_grid: { name: "rectilinear", configuration: 5 } }, INVALID],
  [{ chunk_grid: { name: "rectilinear", configuration: {} } }, UNKNOWN],
  [{ chunk_grid: "regular" }, INVALID],
  [{ chunk_grid: { name: "regular", configuration: { chunk_shape: [0] } } }, INVALID],
  [{ chunk_grid: { name: "regular", configuration: { chunk_shape: [1, 1] } } }, INVALID],
  [{ chunk_grid: { configuration: { chunk_shape: [1] } } }, INVALID],
  [{ chunk_grid: undefined }, INVALID],
  [{ chunk_key_encoding: { name: "fanout" } }, UNKNOWN],
  [{ chunk_key_encoding: { name: "default", configuration: { separator: "-" } } }, INVALID],
  [{ chunk_key_encoding: { name: "v2", configuration: { separator: null } } }, INVALID],
  [{ chunk_key_encoding: 1 }, INVALID],
  [{ chunk_key_encoding: { name: "v2", configuration: null } }, INVALID],
  [{ codecs: [{ name: "bytes", configuration: null }] }, INVALID],
  // What comes first decides.
  [{ shape: null, chunk_grid: "x" }, INVALID],
  [{ chunk_grid: "x", chunk_key_encoding: {} }, UNKNOWN],
  [{ chunk_grid: "regular", chunk_key_encoding: "x" }, INVALID],
  [{ chunk_key_encoding: "x", data_type: undefined }, UNKNOWN],
  [{ codecs: [] }, INVALID],
]) {
  test(`${JSON.stringify(more)} is ${code}`, () => {
    assert.throws(() => readLayout({ ...METADATA, ...more }), { code, phase: "declaration" });
  });
}

const PARTITIONED = { manifest: "{partition}", base: "./", codecs: [], partitionShape: [1], partitions: null };
const context = (declaration, { metadata = METADATA, base = null } = {}) =>
  arrayContext("a", metadata, { ...PARTITIONED, ...declaration }, { base, limits: {}, sources: { root: null } });

for (const [what, declaration, more, code] of [
  ["the key encoding before partition_shape", { partitionShape: [] }, { metadata: { ...METADATA, chunk_key_encoding: "x" } }, UNKNOWN],
  ["partition_shape before base", { partitionShape: [], base: "" }, {}, INVALID],
  ["names of partitions before base", { partitions: ["x"], base: "" }, {}, INVALID],
  ["base", { base: "#" }, {}, "invalid_path"],
  ["the override", {}, { base: "//h" }, "invalid_path"],
  ["manifest", { manifest: "../../{partition}" }, {}, "invalid_path"],
]) {
  test(`what counts: ${what}`, () => {
    assert.throws(() => context(declaration, more), { code, phase: "declaration" });
  });
}

test("an override does not hide a base that is not usable", () => {
  assert.throws(() => context({ base: "%" }, { base: "x/" }), { code: "invalid_path" });
  assert.deepEqual(context({}, { base: "x" }).base.segments, ["x", ""]);
});

test("a validator is told everything that is wrong", () => {
  const codes = [];
  const metadata = { ...METADATA, chunk_grid: "x" };
  const declaration = { ...PARTITIONED, base: "#", manifest: "../../{partition}" };
  const policy = { base: "//", limits: {}, sources: { root: null } };
  assert.equal(arrayContext("a", metadata, declaration, policy, ({ code }) => codes.push(code)), null);
  assert.deepEqual(codes, [UNKNOWN, "invalid_path", "invalid_path", "invalid_path"]);
});
