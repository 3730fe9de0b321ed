/**
 * Which of two copies of a node's metadata counts ("Consolidated metadata"): its own `zarr.json`, or
 * the copy in the root's. Pure.
 */

import { documentChecksum } from "./checksums.js";
import { isObject } from "./configuration.js";

/**
 * What the root's consolidated metadata say of a node.
 * @param {any} root the root's `zarr.json`
 * @param {string} path of the node
 * @returns {{copy: any, pending: unknown}} undefined for what they do not say
 */
export function consolidated(root, path) {
  const { metadata, pending } = Object(root?.consolidated_metadata);
  return { copy: memberOf(metadata, path), pending: memberOf(pending, path) };
}

function memberOf(object, name) {
  return isObject(object) && Object.hasOwn(object, name) ? object[name] : undefined;
}

/**
 * Whether a node's own `zarr.json` is the one that a change is about to replace or to remove.
 * @param {Uint8Array | undefined} own its bytes; undefined if there is none
 * @param {unknown} pending what `pending` says of it; undefined for nothing
 */
export function isBehind(own, pending) {
  return own === undefined ? pending === null : pending !== undefined && documentChecksum(own) === pending;
}
