/**
 * All problems of one manifest document, for validators. Pure.
 *
 * The checks are those of readers; beside them, what a reader may refuse.
 */

import { canonicalKey, chunkKeyReader, isInGrid } from "./chunk-keys.js";
import { checkBlock, checkLengths, checkRoot, namedTwice, notAKey } from "./document.js";
import { checkEntry, checkForms, hasZeroPadding, inlineSize } from "./entries.js";
import { ManifestError } from "./errors.js";
import { duplicates, duplicatesWithin, isPlainInteger, membersOf, parseNodes } from "./json-members.js";
import { parseDocument, parseJson } from "./json.js";
import { resolveObject } from "./locations.js";

const FORMS = ["checksum", "etag", "version", "last_modified"];

/** @typedef {(error: ManifestError, chunk: string | null) => void} Report */

/**
 * @param {string} text of the document
 * @param {Parameters<typeof import("./document.js").readDocument>[1]} context
 * @param {Report} report is told each problem, and the member that it is about
 */
export function checkDocument(text, context, report) {
  const root = attempt(report, null, () => {
    checkRoot(parseDocument(text));
    return parseNodes(text);
  });
  if (root === undefined) return;
  for (const name of duplicates(root)) report(twice(name), name);
  const members = membersOf(root);
  checkAmounts(text, members, context.limits, report);
  const checkPlace = placeChecker(context);
  for (const { name, value } of members) {
    for (const inner of duplicatesWithin(value)) report(twice(inner), name);
    checkValue(value, text, context, (error) => report(error, name));
    attempt(report, name, () => checkPlace(name));
  }
}

function checkAmounts(text, members, limits, report) {
  const inline = members.reduce((sum, { value }) => sum + inlineBytes(value), 0);
  for (const [what, amount, limit] of [
    ["entries", members.length, limits.entries],
    ["bytes inline", inline, limits.inlineBytes],
  ]) {
    if (amount > limit) {
      report(new ManifestError("limit_exceeded", `the document has more than ${limit} ${what}`), null);
    }
  }
}

function inlineBytes(node) {
  const data = membersOf(node).findLast(({ name }) => name === "data")?.value;
  return data?.type === "String" ? inlineSize(data.value) : 0;
}

/** Checks that a member names a chunk of this document, and that no other one did. */
function placeChecker({ layout, partition }) {
  const readKey = chunkKeyReader(layout);
  const spellings = new Map();
  return (name) => {
    const index = readKey(name);
    if (index === null) throw notAKey(name);
    if (!isInGrid(index, layout.gridShape)) {
      throw new ManifestError("invalid_chunk_key", "the chunk is outside the chunk grid");
    }
    checkBlock(name, index, partition);
    const spelling = spellings.get(canonicalKey(index)) ?? name;
    spellings.set(canonicalKey(index), spelling);
    if (spelling !== name) throw namedTwice(spelling, name);
  };
}

/** Whatever its key is, an entry is checked like all others. */
function checkValue(node, text, { base, limits }, report) {
  const value = parseJson(text.slice(...node.range));
  for (const { name, value: number } of membersOf(node)) {
    if (["offset", "length"].includes(name) && !isPlainInteger(number, text)) {
      report(new ManifestError("invalid_entry", `${name} has a fraction or an exponent`));
    }
  }
  if (!check(report, () => checkEntry(value))) return;
  if (value.data !== undefined && !hasZeroPadding(value.data)) {
    report(new ManifestError("invalid_entry", "data has unused bits that are not zero"));
  }
  check(report, () => checkLengths(value, limits.pathLength));
  for (const name of FORMS) check(report, () => checkForms({ [name]: value[name] }));
  if (value.path !== undefined) check(report, () => resolveObject(value.path, base));
}

function twice(name) {
  return new ManifestError("invalid_manifest", `the member ${JSON.stringify(name)} is there more than once`);
}

/** Run a check; what it raises is reported. Whether it raised nothing. */
function check(report, action) {
  return attempt(report, null, () => action() ?? true) !== undefined;
}

function attempt(report, chunk, action) {
  try {
    return action();
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    report(error, chunk);
    return undefined;
  }
}
