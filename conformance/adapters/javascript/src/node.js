/**
 * Local directories and `file:` URLs, in Node.js. Symbolic links are followed only within what may
 * be read.
 */

import { constants } from "node:fs";
import { open, readdir } from "node:fs/promises";
import { join, relative, resolve, sep } from "node:path";
import { pathToFileURL } from "node:url";

import { ManifestError } from "./errors.js";
import { interval } from "./ranges.js";
import { realPathBelow } from "./real-paths.js";

/** @typedef {import("./sources.js").ReadObject} ReadObject */

// Without waiting for somebody to write into a pipe; and no link that was put there after the check.
// Windows has neither flag.
const HOW = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0);

// The last one is for names that no file can have.
const CODES = {
  ENOENT: "source_not_found", ENOTDIR: "source_not_found", EACCES: "source_access_denied",
  ERR_INVALID_ARG_VALUE: "source_not_found",
};

/**
 * A hierarchy in a local directory.
 * @param {string} root
 * @returns {import("./hierarchies.js").Hierarchy}
 */
export function directory(root) {
  return {
    home: { prefix: pathToFileURL(resolve(root)).href },
    read: (key, range, { roots = [], ...options }) =>
      readFile(join(root, key), range, { ...options, roots: [root, ...roots] }),
  };
}

/**
 * Read a file, or a range of it.
 * @type {ReadObject}
 */
export async function readFile(path, range, { roots = [], inspect, limit = Infinity, signal }) {
  signal?.throwIfAborted();
  try {
    // What is opened is what was checked: the resolved path.
    const file = await open(await realPathBelow(path, roots), HOW);
    try {
      return await readOpen(file, range, { inspect, limit });
    } finally {
      await file.close();
    }
  } catch (error) {
    throw error instanceof ManifestError ? error : sourceError(error);
  }
}

async function readOpen(file, range, { inspect, limit }) {
  const status = await file.stat();
  if (!status.isFile()) throw new ManifestError("source_error", "not a regular file");
  const lastModified = new Date(Math.floor(status.mtimeMs / 1000) * 1000).toUTCString();
  const state = { etag: null, lastModified, version: null, size: status.size };
  inspect?.(state);
  const [start, end] = interval(range, status.size);
  if (end - start > limit) {
    throw new ManifestError("limit_exceeded", `the document has more than ${limit} bytes`);
  }
  const bytes = new Uint8Array(end - start);
  let position = 0;
  while (position < bytes.length) {
    const { bytesRead } = await file.read(bytes, position, bytes.length - position, start + position);
    if (bytesRead === 0) throw new ManifestError("short_read", "the file has become shorter");
    position += bytesRead;
  }
  return { ...state, bytes, start };
}

function sourceError(error) {
  // The message of the file system names the path, which the location says better.
  return new ManifestError(CODES[error.code] ?? "source_error", error.code ?? error.message, { cause: error });
}

/**
 * Paths of all nodes below a directory that have a `zarr.json`, sorted.
 * @param {string} root
 * @returns {Promise<string[]>}
 */
export async function findNodes(root) {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.name === "zarr.json" && !entry.isDirectory())
    .map((entry) => relative(root, entry.parentPath ?? entry.path).split(sep).filter(Boolean))
    .map((segments) => segments.join("/"))
    .sort();
}
