/**
 * Checksums of chunks and of documents: their form, and their verification.
 */

import { md5 } from "@noble/hashes/legacy.js";
import { sha256, sha512 } from "@noble/hashes/sha2.js";

import { crc32, crc32c } from "./crc.js";
import { ManifestError } from "./errors.js";

const OF_DOCUMENTS = "sha256";

/** @type {Record<string, {digits: number, digest: (bytes: Uint8Array) => string}>} */
const ALGORITHMS = {
  crc32c: { digits: 8, digest: (bytes) => crc32c(bytes).toString(16).padStart(8, "0") },
  crc32: { digits: 8, digest: (bytes) => crc32(bytes).toString(16).padStart(8, "0") },
  // Not WebCrypto: it has no MD5, and is missing from pages that were not loaded securely.
  md5: { digits: 32, digest: (bytes) => hex(md5(bytes)) },
  sha256: { digits: 64, digest: (bytes) => hex(sha256(bytes)) },
  sha512: { digits: 128, digest: (bytes) => hex(sha512(bytes)) },
};

/**
 * @param {string} checksum `algorithm:digest`
 */
export function checkChecksumForm(checksum) {
  const [, algorithm, digest] = /^([^:]+):(.*)$/s.exec(checksum) ?? malformed(checksum);
  if (!Object.hasOwn(ALGORITHMS, algorithm)) {
    throw new ManifestError(
      "unsupported_checksum",
      `the algorithm ${JSON.stringify(algorithm)} is not known; known: ${Object.keys(ALGORITHMS).join(", ")}`,
    );
  }
  if (!/^[0-9a-f]*$/.test(digest) || digest.length !== ALGORITHMS[algorithm].digits) {
    malformed(checksum);
  }
}

/** @returns {never} */
function malformed(checksum) {
  throw new ManifestError("invalid_entry", `malformed checksum ${JSON.stringify(checksum)}`);
}

/**
 * Check the form of a document's checksum, of which there is one algorithm.
 * @param {unknown} checksum as a declaration states it
 * @param {string} name of the member that it is
 */
export function checkDocumentChecksum(checksum, name) {
  const [, algorithm, digest] = (typeof checksum === "string" && /^([^:]+):(.*)$/s.exec(checksum)) || [];
  if (algorithm !== undefined && algorithm !== OF_DOCUMENTS) {
    throw new ManifestError(
      "unsupported_checksum",
      `${name}: the algorithm ${JSON.stringify(algorithm)} is not known; known of documents: ${OF_DOCUMENTS}`,
      { phase: "declaration" },
    );
  }
  if (digest === undefined || !/^[0-9a-f]{64}$/.test(digest)) {
    throw new ManifestError("invalid_configuration", `${name}: malformed checksum ${JSON.stringify(checksum)}`);
  }
}

/**
 * The checksum of a document, as declarations state it.
 * @param {Uint8Array} bytes
 */
export function documentChecksum(bytes) {
  return `${OF_DOCUMENTS}:${ALGORITHMS[OF_DOCUMENTS].digest(bytes)}`;
}

/**
 * @param {string} checksum of a form that was checked
 * @param {Uint8Array} bytes of the whole chunk, or of the document as it is stored
 */
export function verifyChecksum(checksum, bytes) {
  const [algorithm, stated] = checksum.split(":");
  const digest = ALGORITHMS[algorithm].digest(bytes);
  if (digest !== stated) {
    throw new ManifestError("checksum_mismatch", `the bytes have ${algorithm} ${digest}, not ${stated}`);
  }
}

function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
