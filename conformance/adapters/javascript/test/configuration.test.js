/** Declarations: which of several errors counts, and that a validator is told all of them. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { NAME, readDeclaration } from "../src/configuration.js";

const ours = (configuration, more) => ({ name: NAME, configuration, ...more });
const declare = (...transformers) => ({ storage_transformers: transformers });
const LOCK = { must_understand: true };
const GOOD = { manifest: "./m.json" };

test("what is declared, and what nothing declares", () => {
  assert.equal(readDeclaration({}), null);
  assert.equal(readDeclaration({ storage_transformers: null }), null);
  assert.equal(readDeclaration(declare()), null);
  assert.equal(readDeclaration(declare({ name: "x", must_understand: false })), null);
  assert.deepEqual(readDeclaration(declare({ name: "x", must_understand: false }, ours(GOOD))), {
    manifest: "./m.json", base: "./", codecs: [], partitionShape: null, partitions: null,
  });
  const codecs = ["gzip", { name: "crc32c", configuration: {}, must_understand: false }];
  const partitioned = { manifest: "{partition}", partition_shape: [2], codecs, partitions: ["1"] };
  assert.deepEqual(readDeclaration(declare(ours(partitioned, { must_understand: true }))), {
    manifest: "{partition}", base: "./", codecs: ["gzip", "crc32c"], partitionShape: [2], partitions: ["1"],
  });
});

test("a lock changes nothing", () => {
  const declaration = declare(ours(GOOD));
  assert.deepEqual(readDeclaration({ ...declaration, [NAME]: LOCK }), readDeclaration(declaration));
});

for (const [metadata, ...codes] of [
  [{ storage_transformers: {} }, "invalid_configuration"],
  [declare("x"), "unsupported_transformer"],
  [declare(NAME), "invalid_configuration"],
  [declare(1, "x"), "invalid_configuration", "unsupported_transformer"],
  [declare("x", ours({})), "unsupported_transformer", "invalid_configuration"],
  [declare({ name: "x", must_understand: null }), "invalid_configuration", "unsupported_transformer"],
  [declare(ours(GOOD, { must_understand: false })), "invalid_configuration"],
  [declare(ours(GOOD, { extra: 1 })), "invalid_configuration"],
  [declare(ours({ ...GOOD, extra: 1, codecs: ["lzma"] })), "invalid_configuration", "unsupported_transformer"],
  [declare(ours(GOOD), ours(GOOD)), "unsupported_transformer"],
  [declare(ours({ ...GOOD, codecs: ["x"] }), 1), "unsupported_transformer", "invalid_configuration"],
  [declare(ours({ manifest: "" })), "invalid_configuration"],
  [declare(ours({ manifest: {}, codecs: [] })), "invalid_configuration"],
  [declare(ours({ manifest: {}, partition_shape: [1], codecs: [] })),
    "invalid_configuration", "invalid_configuration"],
  [declare(ours({ manifest: "{partition}" })), "invalid_configuration"],
  [declare(ours({ manifest: "m?{partition}", partition_shape: [1] })), "invalid_configuration"],
  [declare(ours({ manifest: "{partition}/{partition}", partition_shape: [1] })), "invalid_configuration"],
  [declare(ours({ manifest: "{partition}", partition_shape: [true] })), "invalid_configuration"],
  ...[null, "some", {}, [0], true].map((partitions) => [
    declare(ours({ manifest: "{partition}", partition_shape: [1], partitions })), "invalid_configuration",
  ]),
  [declare(ours({ ...GOOD, partitions: "all" })), "invalid_configuration"],
  [declare(ours({ manifest: {}, partitions: [] })), "invalid_configuration"],
  [declare(ours({ ...GOOD, codecs: [{ name: "lzma", must_understand: false }] })), "unsupported_transformer"],
  [declare(ours({ ...GOOD, codecs: [{ name: "gzip", must_understand: 1 }] })), "invalid_configuration"],
  [declare(ours({ ...GOOD, codecs: [{ name: "gzip", must_understand: null }] })), "invalid_configuration"],
  [declare(ours({ ...GOOD, base: null, codecs: [1] })), "invalid_configuration", "invalid_configuration"],
  ...[null, true, [], {}, { must_understand: false }, { must_understand: 1 }, { ...LOCK, x: 1 }].map((lock) => [
    { ...declare(ours(GOOD)), [NAME]: lock }, "invalid_configuration",
  ]),
  ...[null, []].map((transformers) => [
    { storage_transformers: transformers, [NAME]: LOCK }, "invalid_configuration",
  ]),
  [{ ...declare("x"), [NAME]: LOCK }, "unsupported_transformer", "invalid_configuration"],
]) {
  test(`refused: ${JSON.stringify(metadata)}`, () => {
    assert.throws(() => readDeclaration(metadata), { code: codes[0], phase: "declaration" });
    const all = [];
    readDeclaration(metadata, (error) => all.push(error.code));
    assert.deepEqual(all, codes);
  });
}
