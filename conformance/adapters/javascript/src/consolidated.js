/**
 * Which of two copies of a node's metadata counts ("Consolidated metadata"): its own `zarr.json`, or
 * the copy in a group's. Pure.
 */

import { documentChecksum } from "./checksums.js";
import { isObject } from "./configuration.js";
import { ManifestError } from "./errors.js";

/** @typedef {{path: string, metadata: any}} Group a group's path, and its `zarr.json` */

/**
 * The copy of a node's metadata; undefined if there is none.
 * @param {any} group the group's `zarr.json`
 * @param {string} member path of the node, from the group
 * @returns {any}
 */
export function copyOf(group, member) {
  return memberOf(group?.consolidated_metadata?.metadata, member);
}

/**
 * What counts of a node whose own `zarr.json` a change is about to replace or to remove: the copy, or
 * null if there is none. Undefined if it is not behind.
 * @param {Group[]} above the groups above the node, the topmost first
 * @param {string} path of the node
 * @param {Uint8Array | undefined} own its bytes; undefined if there is none
 * @returns {any}
 */
export function aheadOf(above, path, own) {
  for (const { path: group, metadata } of above) {
    const member = group === "" ? path : path.slice(group.length + 1);
    const stated = statedOf(metadata, member);
    if (stated === undefined || stated !== digestOf(own)) continue;
    return copyOf(metadata, member) ?? null;
  }
  return undefined;
}

/**
 * What a group's `pending` says of a node's own `zarr.json`; undefined if it says nothing.
 * @param {any} group the group's `zarr.json`
 * @param {string} member path of the node, from the group
 * @returns {string | null | undefined}
 */
export function statedOf(group, member) {
  const stated = memberOf(pendingIn(group), member);
  if (stated !== undefined) checkStated(member, stated);
  return stated;
}

/**
 * Refuse a `pending` of another form.
 * @param {any} group the group's `zarr.json`
 */
export function checkPending(group) {
  for (const [member, stated] of Object.entries(pendingIn(group))) checkStated(member, stated);
}

/**
 * The paths of the groups above a node, the topmost first.
 * @param {string} path of the node
 */
export function pathsAbove(path) {
  const segments = path === "" ? [] : path.split("/");
  return segments.map((_, depth) => segments.slice(0, depth).join("/"));
}

const digestOf = (own) => (own === undefined ? null : documentChecksum(own));

function pendingIn(group) {
  const pending = memberOf(group?.consolidated_metadata, "pending");
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
