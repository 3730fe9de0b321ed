/**
 * Everything that is invalid in the declarations and manifest documents of a hierarchy, not only
 * the first of it. No source is read, and none needs to be authorised.
 */

import { canonicalKey, chunkKeyReader, isInGrid } from "./chunk-keys.js";
import { isObject, NAME, readDeclaration } from "./configuration.js";
import { checkBlock, checkRoot, makeEntry, namedTwice, notAKey } from "./document.js";
import { checkEntry, checkForms } from "./entries.js";
import { DEFAULT_LIMITS } from "./index.js";
import { ManifestError } from "./errors.js";
import { duplicates, isPlainInteger, memberOf, membersOf, parseNodes } from "./json-members.js";
import { decodeText, parseJson, parseMetadata } from "./json.js";
import { arrayContext } from "./manifest-array.js";
import { blocks, fetchDocument } from "./partitions.js";
import { Sources } from "./sources.js";

/** @typedef {{code: string, phase: string, array: string, chunk: string | null, message: string}} Problem */

/**
 * @param {import("./hierarchies.js").Hierarchy} hierarchy
 * @param {Iterable<string>} nodes paths of the nodes that have a `zarr.json`
 * @param {Omit<import("./index.js").Options, "missing" | "verify">} [options] `allow` covers
 *   manifest documents that lie elsewhere
 * @returns {Promise<Problem[]>}
 */
export async function validate(hierarchy, nodes, options = {}) {
  const { allow = [], base = null, fetch, files } = options;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const sources = new Sources({ allow, hierarchy, fetch, files });
  const policy = { base, limits, sources, verify: "auto" };
  const validator = new Validator(policy);
  for (const path of nodes) await validator.checkNode(path);
  return validator.problems;
}

class Validator {
  /** @type {Problem[]} */
  problems = [];
  #policy;

  constructor(policy) {
    this.#policy = policy;
  }

  /** Check the `zarr.json` of a node, and what it declares. */
  async checkNode(path) {
    const key = path === "" ? "zarr.json" : `${path}/zarr.json`;
    const { bytes } = await this.#policy.sources.readKey(key, null, { phase: "declaration" });
    const metadata = this.#attempt({ array: path }, () => parseMetadata(path, bytes));
    if (!isObject(metadata)) return;
    const text = decodeText(bytes);
    if (metadata.node_type === "array") await this.#checkArray(path, metadata, text);
    const consolidated = metadata.consolidated_metadata?.metadata;
    if (isObject(consolidated)) await this.#checkConsolidated(path, consolidated);
  }

  /** Consolidated declarations count; writers keep them equal to the arrays' own. */
  async #checkConsolidated(group, consolidated) {
    for (const [name, metadata] of Object.entries(consolidated)) {
      if (!isObject(metadata) || metadata.node_type !== "array") continue;
      const array = group === "" ? name : `${group}/${name}`;
      const own = await this.#ownDeclarations(array);
      if (sameJson(own, metadata.storage_transformers)) continue;
      this.#report(
        new ManifestError("invalid_configuration", "consolidated metadata declares something else"),
        { array },
      );
      await this.#checkArray(array, metadata, JSON.stringify(metadata));
    }
  }

  async #ownDeclarations(array) {
    try {
      const { bytes } = await this.#policy.sources.readKey(`${array}/zarr.json`, null, { phase: "declaration" });
      return parseJson(decodeText(bytes)).storage_transformers;
    } catch (error) {
      if (error instanceof ManifestError) return null;
      throw error;
    }
  }

  async #checkArray(path, metadata, zarrJson) {
    const declaration = readDeclaration(metadata, (error) => {
      this.#report(error, { array: path });
    });
    if (!declaration) return;
    const context = this.#attempt({ array: path }, () =>
      arrayContext(path, metadata, declaration, this.#policy),
    );
    if (context === undefined) return;
    for (const block of blocks(context)) {
      const text = await this.#documentText(context, block, zarrJson);
      if (text !== null) this.#checkDocument(context, block, text);
    }
  }

  /** The text of a document, or null. */
  async #documentText(context, block, zarrJson) {
    const where = { array: context.path };
    const stored = await this.#attemptAsync(where, () => fetchDocument(context, block));
    if (stored === undefined || "missing" in stored) return null;
    if ("bytes" in stored) return this.#attempt(where, () => decodeText(stored.bytes)) ?? null;
    return inlineText(zarrJson);
  }

  #checkDocument(context, block, text) {
    const where = { array: context.path };
    const root = this.#attempt(where, () => {
      parseJson(text);
      const node = parseNodes(text);
      checkRoot(node.type === "Object" ? {} : null);
      return node;
    });
    if (root === undefined) return;
    this.#reportDuplicates(root, where);
    const members = membersOf(root);
    if (members.length > this.#policy.limits.entries) {
      this.#report(new ManifestError("limit_exceeded", `${members.length} entries`), where);
    }
    this.#checkMembers(context, block, members, text);
  }

  #checkMembers(context, block, members, text) {
    const readKey = chunkKeyReader(context.layout);
    const partition = block && { shape: context.declaration.partitionShape, block };
    const spellings = new Map();
    for (const { name, value } of members) {
      const where = { array: context.path, chunk: name };
      this.#attempt(where, () => this.#checkValue(value, text, context.base, where));
      this.#attempt(where, () => {
        const index = readKey(name);
        if (index === null) throw notAKey(name);
        if (!isInGrid(index, context.layout.gridShape)) {
          throw new ManifestError("invalid_chunk_key", "the chunk is outside the chunk grid");
        }
        checkBlock(name, index, partition);
        const spelling = spellings.get(canonicalKey(index)) ?? name;
        spellings.set(canonicalKey(index), spelling);
        if (spelling !== name) throw namedTwice(spelling, name);
      });
    }
  }

  #checkValue(node, text, base, where) {
    this.#reportDuplicates(node, where);
    const value = parseJson(text.slice(...node.range));
    checkEntry(value);
    for (const name of ["offset", "length"]) {
      const number = memberOf(node, name);
      if (number && !isPlainInteger(number, text)) {
        throw new ManifestError("invalid_entry", `${name} has a fraction or an exponent`);
      }
    }
    checkForms(value);
    makeEntry(value, base);
  }

  #reportDuplicates(node, where) {
    for (const name of duplicates(node)) {
      const detail = `the member ${JSON.stringify(name)} is there more than once`;
      this.#report(new ManifestError("invalid_manifest", detail), { chunk: name, ...where });
    }
  }

  /** Run a check; what it raises becomes a problem. */
  #attempt(where, check) {
    try {
      return check();
    } catch (error) {
      return this.#report(error, where);
    }
  }

  async #attemptAsync(where, check) {
    try {
      return await check();
    } catch (error) {
      return this.#report(error, where);
    }
  }

  #report(error, where) {
    if (!(error instanceof ManifestError)) throw error;
    const { code, phase, message, array, chunk = null } = error.at(where);
    this.problems.push({ code, phase, array, chunk, message });
  }
}

/** The text of an inline manifest as it stands in `zarr.json`, duplicates included. */
function inlineText(zarrJson) {
  const manifests = memberOf(parseNodes(zarrJson), "storage_transformers")
    .elements.filter(({ value }) => memberOf(value, "name")?.value === NAME)
    .map(({ value }) => memberOf(memberOf(value, "configuration"), "manifest"));
  return zarrJson.slice(...manifests.find((manifest) => manifest?.type === "Object").range);
}

function sameJson(a, b) {
  return JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value ?? null;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
}
