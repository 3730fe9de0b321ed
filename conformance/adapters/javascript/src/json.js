/** From the bytes of a document to JSON values, within limits. */

import { ManifestError } from "./errors.js";
import { hasLoneSurrogate } from "./surrogates.js";

// More than anybody's attributes need, and less than a stack holds.
const METADATA_NESTING = 500;
const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const OPENING = [0x5b, 0x7b];
const CLOSING = [0x5d, 0x7d];

/**
 * @param {Uint8Array} bytes
 * @returns {string}
 */
export function decodeText(bytes) {
  try {
    // A byte order mark is kept, so that it is refused as what is not JSON.
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new ManifestError("invalid_json", "the document is not UTF-8", { cause: error });
  }
}

/**
 * @param {string} text
 * @returns {any}
 */
export function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // The engine's message, and so the error, quotes the text, in which there may be secrets.
    const [place = ""] = / at (?:position|line) \d+(?:.*column \d+)?/.exec(error.message) ?? [];
    throw new ManifestError("invalid_json", `the document is not JSON${place}`);
  }
}

/**
 * The text of a manifest document, or of an inline manifest.
 * @param {string} text
 * @returns {any}
 */
export function parseDocument(text) {
  const document = parseJson(text);
  checkSurrogates(text);
  return document;
}

/**
 * Refuse strings that are no text.
 * @param {string} text of a manifest, valid JSON
 */
export function checkSurrogates(text) {
  if (!hasLoneSurrogate(text)) return;
  throw new ManifestError("invalid_json", "the manifest has an escaped lone surrogate");
}

/**
 * Refuse what is nested deeper than `limit`, before any parser recurses into it.
 * @param {Uint8Array} bytes UTF-8, in which no part of a character looks like a bracket
 * @param {number} limit
 */
export function checkNesting(bytes, limit) {
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (quoted) {
      if (byte === BACKSLASH) i++;
      else if (byte === QUOTE) quoted = false;
    } else if (byte === QUOTE) quoted = true;
    else if (OPENING.includes(byte)) {
      if (++depth > limit) {
        throw new ManifestError("limit_exceeded", `the document is nested deeper than ${limit}`);
      }
    } else if (CLOSING.includes(byte)) depth--;
  }
}

/**
 * The `zarr.json` of a node. What is wrong with it is wrong with the array's metadata.
 * @param {string} path of the node
 * @param {Uint8Array} bytes
 * @returns {any}
 */
export function parseMetadata(path, bytes) {
  try {
    checkNesting(bytes, METADATA_NESTING);
    return parseJson(decodeText(bytes));
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    const code = error.code === "limit_exceeded" ? error.code : "invalid_configuration";
    throw new ManifestError(code, `zarr.json: ${error.detail}`, {
      phase: "declaration",
      array: path,
      cause: error,
    });
  }
}
