/** Encoded documents: what decodes, what is corrupt, and what is too large. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

import { verifyChecksum } from "../src/checksums.js";
import { crc32c } from "../src/crc.js";
import { decodeDocument } from "../src/codecs.js";

const TEXT = new TextEncoder().encode('{"0": {}}'.repeat(1000));
// "hello" in one frame with content size and checksum, as zstd 1.5 writes it.
const FRAME = Buffer.from("28b52ffd240529000068656c6c6fa36d9f88", "hex");

function withCrc(bytes) {
  const checked = Buffer.alloc(bytes.length + 4);
  checked.set(bytes);
  checked.writeUInt32LE(crc32c(bytes), bytes.length);
  return checked;
}

const corrupt = (bytes, codecs) =>
  assert.rejects(decodeDocument(bytes, codecs, 1e6), { code: "invalid_manifest" });

test("gzip members are joined, and codecs undone in reverse", async () => {
  const half = TEXT.length / 2;
  const members = Buffer.concat([gzipSync(TEXT.subarray(0, half)), gzipSync(TEXT.subarray(half))]);
  assert.deepEqual(await decodeDocument(withCrc(members), ["gzip", "crc32c"], 1e6), TEXT);
});

test("zstd frames are joined, and skippable ones skipped", async () => {
  const skippable = Buffer.from("502a4d1802000000abcd", "hex");
  const decoded = await decodeDocument(Buffer.concat([FRAME, skippable, FRAME]), ["zstd"], 10);
  assert.equal(new TextDecoder().decode(decoded), "hellohello");
});

test("every truncation is corrupt", async () => {
  const gzip = gzipSync(TEXT);
  for (let n = 0; n < gzip.length; n++) await corrupt(gzip.subarray(0, n), ["gzip"]);
  for (let n = 0; n < FRAME.length; n++) await corrupt(FRAME.subarray(0, n), ["zstd"]);
  for (let n = 0; n < 4; n++) await corrupt(TEXT.subarray(0, n), ["crc32c"]);
});

test("bytes after the end, and wrong checksums, are corrupt", async () => {
  for (const codec of ["gzip", "zstd"]) {
    const bytes = codec === "gzip" ? gzipSync(TEXT) : FRAME;
    await corrupt(Buffer.concat([bytes, Buffer.from([0])]), [codec]);
    await corrupt(Buffer.concat([bytes, Buffer.from("garbage")]), [codec]);
    const wrong = Buffer.from(bytes);
    wrong[codec === "gzip" ? bytes.length - 8 : bytes.length - 1] ^= 1;
    await corrupt(wrong, [codec]);
  }
});

test("decoding stops at the limit", async () => {
  const bomb = gzipSync(Buffer.alloc(1e7));
  await assert.rejects(decodeDocument(bomb, ["gzip"], 1e6), { code: "limit_exceeded" });
  await assert.rejects(decodeDocument(FRAME, ["zstd"], 4), { code: "limit_exceeded" });
  // A frame that claims 2^62 bytes must not be believed.
  const liar = Buffer.from("28b52ffde00000000000000040", "hex");
  const block = Buffer.from("29000068656c6c6f", "hex");
  await assert.rejects(decodeDocument(Buffer.concat([liar, block]), ["zstd"], 1e6), {
    code: "limit_exceeded",
  });
});

test("checksums of the check values", () => {
  const bytes = new TextEncoder().encode("123456789");
  for (const checksum of [
    "crc32c:e3069283",
    "crc32:cbf43926",
    "md5:25f9e794323b453885f5181f1b624d0b",
    "sha256:15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
  ]) {
    verifyChecksum(checksum, bytes);
    const other = bytes.subarray(1);
    assert.throws(() => verifyChecksum(checksum, other), { code: "checksum_mismatch" });
  }
});
