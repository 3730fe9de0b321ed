/** The body of an HTTP answer, read as far as a limit, and checked to be complete. */

import { ManifestError } from "./errors.js";

/**
 * @param {Response} response
 * @param {import("./http-extent.js").Extent} extent what the answer's headers promise
 * @param {number} [limit] of bytes
 * @returns {Promise<Uint8Array>}
 */
export async function readBody(response, { start, end, encoded }, limit = Infinity) {
  const promised = end === null ? null : end - start;
  if (promised !== null && promised > limit) {
    await response.body?.cancel();
    throw tooLarge(limit);
  }
  const parts = [];
  let size = 0;
  const reader = response.body?.getReader();
  try {
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
      size += part.value.length;
      if (size > limit) throw tooLarge(limit);
      parts.push(part.value);
    }
  } catch (error) {
    if (error instanceof ManifestError) await reader?.cancel();
    if (error instanceof ManifestError || error.name === "AbortError") throw error;
    if (encoded) throw undecodable(error);
    throw short(`the connection broke after ${size} bytes`, error);
  }
  if (promised !== null && size < promised) throw short(`${size} of ${promised} bytes arrived`);
  if (promised !== null && size > promised) {
    throw new ManifestError("source_error", `${size} bytes arrived, ${promised} were promised`);
  }
  return join(parts, size);
}

function join(parts, size) {
  if (parts.length === 1) return parts[0];
  const bytes = new Uint8Array(size);
  let position = 0;
  for (const part of parts) {
    bytes.set(part, position);
    position += part.length;
  }
  return bytes;
}

function short(detail, cause) {
  return new ManifestError("short_read", detail, { cause });
}

function undecodable(cause) {
  return new ManifestError("source_error", "the server encoded the object, and it cannot be decoded", { cause });
}

function tooLarge(limit) {
  return new ManifestError("limit_exceeded", `the document has more than ${limit} bytes`);
}
