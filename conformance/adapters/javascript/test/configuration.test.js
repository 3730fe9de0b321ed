/** Declarations: which of several errors counts, and that a validator is told all of them. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { checksumOf, documentReference, NAME, readDeclaration } from "../src/configuration.js";

const ours = (configuration, more) => ({ name: NAME, configuration, ...more });
const declare = (...transformers) => ({ storage_transformers: transformers });
const LOCK = { must_understand: true };
const GOOD = { manifest: "./m.json" };
const SHA256 = `sha256:${"0123456789abcdef".repeat(4)}`;
const BY_DIGEST = { manifest: "m-{digest}.json", checksum: SHA256 };
const BLOCKS = { manifest: "{partition}-{digest}", partition_shape: [1], partitions: { 1: SHA256 } };

test("what is declared, and what nothing declares", () => {
  assert.equal(readDeclaration({}), null);
  assert.equal(readDeclaration({ storage_transformers: null }), null);
  assert.equal(readDeclaration(declare()), null);
  assert.equal(readDeclaration(declare({ name: "x", must_understand: false })), null);
  assert.deepEqual(readDeclaration(declare({ name: "x", must_understand: false }, ours(GOOD))), {
    manifest: "./m.json", base: "./", codecs: [], partitionShape: null, partitions: null, checksum: null,
  });
  const codecs = ["gzip", { name: "crc32c", configuration: {}, must_understand: false }];
  const partitioned = { manifest: "{partition}", partition_shape: [2], codecs, partitions: ["1"] };
  assert.deepEqual(readDeclaration(declare(ours(partitioned, { must_understand: true }))), {
    manifest: "{partition}", base: "./", codecs: ["gzip", "crc32c"], partitionShape: [2], partitions: ["1"],
    checksum: null,
  });
});

test("the name of a document contains a part of its digest", () => {
  for (const [configuration, block, checksum, reference] of [
    [BY_DIGEST, null, SHA256, "m-0123456789abcdef.json"],
    [{ ...GOOD, checksum: SHA256 }, null, SHA256, "./m.json"],
    [GOOD, null, null, "./m.json"],
    [BLOCKS, [1], SHA256, "1-0123456789abcdef"],
    [{ ...BLOCKS, manifest: "{partition}" }, [1], SHA256, "1"],
    [{ ...BLOCKS, manifest: "{partition}", partitions: "all" }, [1], null, "1"],
  ]) {
    const declaration = readDeclaration(declare(ours(configuration)));
    assert.equal(checksumOf(declaration, block), checksum);
    assert.equal(documentReference(declaration.manifest, block, checksum), reference);
  }
  // A block that has no document has no checksum.
  assert.equal(checksumOf(readDeclaration(declare(ours(BLOCKS))), [0]), null);
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
  ...[null, "some", [0], true].map((partitions) => [
    declare(ours({ manifest: "{partition}", partition_shape: [1], partitions })), "invalid_configuration",
  ]),
  [declare(ours({ ...GOOD, partitions: "all" })), "invalid_configuration"],
  ...[null, 1, "", "sha256", "sha256:", `${SHA256}0`, SHA256.slice(0, -1), SHA256.toUpperCase().replace("SHA", "sha")]
    .flatMap((checksum) => [{ ...BY_DIGEST, checksum }, { ...BLOCKS, partitions: { 0: SHA256, 1: checksum } }])
    .map((configuration) => [declare(ours(configuration)), "invalid_configuration"]),
  [declare(ours({ ...BY_DIGEST, checksum: SHA256.replace("256", "512") })), "unsupported_checksum"],
  [declare(ours({ ...BLOCKS, partitions: { 1: `md5:${"0".repeat(32)}` } })), "unsupported_checksum"],
  [declare(ours({ ...GOOD, checksum: "md5:0", codecs: ["x"] })), "unsupported_checksum", "unsupported_transformer"],
  [declare(ours({ manifest: {}, checksum: SHA256 })), "invalid_configuration"],
  [declare(ours({ ...BLOCKS, checksum: SHA256 })), "invalid_configuration"],
  [declare(ours({ manifest: "{digest}" })), "invalid_configuration"],
  [declare(ours({ ...BLOCKS, partitions: ["1"] })), "invalid_configuration"],
  [declare(ours({ ...BY_DIGEST, manifest: "{digest}/{digest}" })), "invalid_configuration"],
  [declare(ours({ ...BY_DIGEST, manifest: "m?{digest}" })), "invalid_configuration"],
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
