/**
 * JSON with what `JSON.parse` forgets: members in document order, those of the same name, and how
 * numbers were written. For validators.
 */

import { parse } from "@humanwhocodes/momoa";

import { ManifestError } from "./errors.js";

/**
 * @typedef {import("@humanwhocodes/momoa").ValueNode} ValueNode
 * @typedef {import("@humanwhocodes/momoa").StringNode} StringNode
 */

/**
 * @param {string} text
 * @returns {ValueNode}
 */
export function parseNodes(text) {
  try {
    return parse(text, { ranges: true }).body;
  } catch (error) {
    if (error instanceof TypeError || error instanceof RangeError) throw error;
    throw new ManifestError("invalid_json", "the document is not JSON");
  }
}

/**
 * The members of an object, in document order.
 * @param {ValueNode | undefined} node
 * @returns {{name: string, value: ValueNode}[]}
 */
export function membersOf(node) {
  if (node?.type !== "Object") return [];
  return node.members.map(({ name, value }) => ({ name: /** @type {StringNode} */ (name).value, value }));
}

/**
 * The last member of a name, as `JSON.parse` takes it.
 * @param {ValueNode | undefined} node
 * @param {string} name
 * @returns {ValueNode | undefined}
 */
export function memberOf(node, name) {
  return membersOf(node).findLast((member) => member.name === name)?.value;
}

/**
 * Names that an object has more than once.
 * @param {ValueNode} node
 * @returns {string[]}
 */
export function duplicates(node) {
  const names = membersOf(node).map(({ name }) => name);
  const seen = new Set();
  return [...new Set(names.filter((name) => seen.size === seen.add(name).size))];
}

/**
 * Names that any object within a value has more than once, the value itself included.
 * @param {ValueNode} node not nested deeper than a stack holds
 * @returns {string[]}
 */
export function duplicatesWithin(node) {
  const inner = node.type === "Array" ? node.elements : membersOf(node);
  return [...duplicates(node), ...inner.flatMap(({ value }) => duplicatesWithin(value))];
}

/**
 * Whether a number was written as digits only.
 * @param {ValueNode} node
 * @param {string} text that it was parsed from
 */
export function isPlainInteger(node, text) {
  return node.type !== "Number" || /^-?[0-9]+$/.test(text.slice(...rangeOf(node)));
}

/**
 * Where a node starts and ends in the text that it was parsed from.
 * @param {ValueNode} node
 * @returns {[number, number]}
 */
export function rangeOf(node) {
  return /** @type {[number, number]} */ (node.range);
}
