/**
 * Undoes the codecs of an encoded manifest document. The decoded size is bounded while decoding:
 * a few bytes can decode to very many.
 */

import { Inflate } from "pako";

import { crc32c } from "./crc.js";
import { ManifestError } from "./errors.js";
import { decodeZstd } from "./zstd.js";

const GZIP_ONLY = 16 + 15; // zlib's window bits: no zlib header, the largest window

/**
 * @param {Uint8Array} bytes
 * @param {string[]} codecs in the order in which a writer applies them
 * @param {number} limit of decoded bytes
 * @returns {Promise<Uint8Array>}
 */
export async function decodeDocument(bytes, codecs, limit) {
  for (const codec of [...codecs].reverse()) {
    const output = new BoundedOutput(limit);
    try {
      await DECODERS[codec](bytes, output);
    } catch (error) {
      if (error instanceof ManifestError) throw error;
      throw new ManifestError("invalid_manifest", `${codec} cannot decode it: ${error.message}`, {
        cause: error,
      });
    }
    bytes = output.bytes();
  }
  return bytes;
}

/** @type {Record<string, (bytes: Uint8Array, output: BoundedOutput) => void | Promise<void>>} */
const DECODERS = { gzip: decodeGzip, zstd: decodeZstd, crc32c: decodeCrc32c };

/** Collects decoded bytes, up to a limit. */
export class BoundedOutput {
  #parts = [];
  #size = 0;
  #limit;

  /** @param {number} limit */
  constructor(limit) {
    this.#limit = limit;
  }

  /** @param {number} size that is known before it is decoded */
  expect(size) {
    if (this.#size + size > this.#limit) {
      throw new ManifestError(
        "limit_exceeded",
        `the document decodes to more than ${this.#limit} bytes`,
      );
    }
  }

  /** @param {Uint8Array} bytes */
  push(bytes) {
    this.expect(bytes.length);
    this.#size += bytes.length;
    this.#parts.push(bytes);
  }

  bytes() {
    const all = new Uint8Array(this.#size);
    let position = 0;
    for (const part of this.#parts) {
      all.set(part, position);
      position += part.length;
    }
    return all;
  }
}

// Not DecompressionStream, which refuses a second member in browsers.
function decodeGzip(bytes, output) {
  const inflate = new Inflate({ windowBits: GZIP_ONLY });
  inflate.onData = (chunk) => output.push(chunk);
  // In one push: a member that ends with a push would end everything.
  inflate.push(bytes, true);
  if (inflate.err !== 0) throw new Error(inflate.msg || `zlib error ${inflate.err}`);
  if (inflate["strm"].avail_in > 0) throw new Error("bytes after the end");
}

function decodeCrc32c(bytes, output) {
  if (bytes.length < 4) throw new Error("fewer than four bytes");
  const content = bytes.subarray(0, -4);
  const stated = new DataView(bytes.buffer, bytes.byteOffset + content.length, 4).getUint32(0, true);
  if (crc32c(content) !== stated) throw new Error("wrong checksum");
  output.push(content);
}
