/**
 * Which of two copies of a node's metadata counts ("Consolidated metadata"): its own `zarr.json`, or
 * the copy in the root's. Pure.
 */

import { documentChecksum } from "./checksums.js";
import { isObject } from "./configuration.js";
import { ManifestError } from "./errors.js";

/**
 * The copy of a node's metadata; undefined if there is none.
 * @param {any} root the root's `zarr.json`
 * @param {string} path of the node
 * @returns {any}
 */
export function copyOf(root, path) {
  return memberOf(root?.consolidated_metadata?.metadata, path);
}

/**
 * Whether a node's own `zarr.json` is the one that a change is about to replace or to remove.
 * @param {any} root the root's `zarr.json`
 * @param {string} path of the node
 * @param {Uint8Array | undefined} own its bytes; undefined if there is none
 */
export function isBehind(root, path, own) {
  const stated = memberOf(pendingIn(root), path);
  if (stated === undefined) return false;
  checkStated(path, stated);
  return own === undefined ? stated === null : documentChecksum(own) === stated;
}

/**
 * Refuse a `pending` of another form.
 * @param {any} root the root's `zarr.json`
 */
export function checkPending(root) {
  for (const [path, stated] of Object.entries(pendingIn(root))) checkStated(path, stated);
}

function pendingIn(root) {
  const pending = memberOf(root?.consolidated_metadata, "pending");
  if (pending === undefined) return {};
  if (!isObject(pending)) throw invalid("pending is not an object");
  return pending;
}

function checkStated(path, stated) {
  if (stated === null || (typeof stated === "string" && /^sha256:[0-9a-f]{64}$/.test(stated))) return;
  throw invalid(`pending says of ${JSON.stringify(path)} neither null nor a SHA-256`);
}

function invalid(detail) {
  return new ManifestError("invalid_configuration", `consolidated metadata: ${detail}`);
}

function memberOf(object, name) {
  return isObject(object) && Object.hasOwn(object, name) ? object[name] : undefined;
}
