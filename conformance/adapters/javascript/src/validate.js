/**
 * Everything that is invalid in the declarations and manifest documents of a hierarchy, not only
 * the first of it. No source is read, and none needs to be authorised.
 */

import { readLayout } from "./array-metadata.js";
import { outsideBlocks } from "./blocks.js";
import { declared, isObject, NAME, readDeclaration } from "./configuration.js";
import { aheadOf, checkPending, pathsAbove, statedOf } from "./consolidated.js";
import { checkDocument } from "./document-problems.js";
import { ManifestError } from "./errors.js";
import { DEFAULT_LIMITS } from "./index.js";
import { isPlainInteger, memberOf, parseNodes, rangeOf } from "./json-members.js";
import { decodeText, parseJson, parseMetadata } from "./json.js";
import { arrayContext } from "./manifest-array.js";
import { blocks, fetchDocument } from "./partitions.js";
import { Sources } from "./sources.js";

/** @typedef {{code: string, phase: string, array: string, chunk: string | null, message: string}} Problem */

/**
 * @param {import("./hierarchies.js").Hierarchy} hierarchy
 * @param {Iterable<string>} nodes paths of the nodes that have a `zarr.json`
 * @param {Omit<import("./index.js").Options, "missing" | "verify" | "consolidated">} [options] `allow` covers
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
  /** @type {Map<string, Promise<any>>} */
  #groups = new Map();

  constructor(policy) {
    this.#policy = policy;
  }

  /** Check the `zarr.json` of a node, and what it declares. */
  async checkNode(path) {
    const where = { array: path };
    const key = path === "" ? "zarr.json" : `${path}/zarr.json`;
    const answer = await this.#attemptAsync(where, () => this.#read(key));
    if (answer === undefined || (await this.#isBehind(path, answer.bytes))) return;
    const metadata = this.#attempt(where, () => parseMetadata(path, answer.bytes));
    if (!isObject(metadata)) return;
    const text = decodeText(answer.bytes);
    const node = parseNodes(text);
    if (metadata.node_type === "array") await this.#checkArray(path, metadata, { text, node });
    else if (metadata.node_type !== "group") {
      this.#report(new ManifestError("invalid_configuration", "node_type is neither array nor group"), where);
    }
    if (metadata.consolidated_metadata === undefined) return;
    await this.#group(path);
    const consolidated = metadata.consolidated_metadata?.metadata;
    if (!isObject(consolidated)) return;
    const members = memberOf(memberOf(node, "consolidated_metadata"), "metadata");
    await this.#checkConsolidated(path, consolidated, { text, node: members });
  }

  #read(key) {
    return this.#policy.sources.readKey(key, null, { phase: "declaration" });
  }

  /** Consolidated declarations count; writers keep them equal to the arrays' own. */
  async #checkConsolidated(group, consolidated, { text, node }) {
    for (const [name, metadata] of Object.entries(consolidated)) {
      if (!isObject(metadata) || metadata.node_type !== "array") continue;
      const array = group === "" ? name : `${group}/${name}`;
      const bytes = await this.#bytesOf(array);
      if (bytes === undefined || (await this.#isBehind(array, bytes))) {
        // Absent, and not said to be: it is to be replaced, so that it was there.
        const isGone = bytes === undefined && statedOf(await this.#group(group), name);
        if (isGone) this.#report(new ManifestError("invalid_configuration", "its own zarr.json is gone"), { array });
        await this.#checkArray(array, metadata, { text, node: memberOf(node, name) });
        continue;
      }
      const own = metadataIn(bytes);
      if (sameJson(own, metadata)) continue;
      if (sameJson(declared(own), declared(metadata))) {
        // The declaration is checked, but not what the copy says beside it.
        if (readDeclaration(metadata, () => {})) this.#attempt({ array }, () => readLayout(metadata));
        continue;
      }
      this.#report(
        new ManifestError("invalid_configuration", "consolidated metadata declares something else"),
        { array },
      );
      await this.#checkArray(array, metadata, { text, node: memberOf(node, name) });
    }
  }

  async #isBehind(path, bytes) {
    const above = pathsAbove(path).map(async (group) => ({ path: group, metadata: await this.#group(group) }));
    // What cannot be read may be there.
    return bytes !== null && aheadOf(await Promise.all(above), path, bytes) !== undefined;
  }

  /** The metadata of a group; null if they cannot be read, or what they say is pending. */
  #group(path) {
    let loading = this.#groups.get(path);
    if (loading === undefined) {
      loading = this.#loadGroup(path);
      this.#groups.set(path, loading);
    }
    return loading;
  }

  async #loadGroup(path) {
    const metadata = metadataIn(await this.#bytesOf(path));
    return this.#attempt({ array: path }, () => checkPending(metadata) ?? metadata) ?? null;
  }

  /** The `zarr.json` of a node; undefined if there is none, null if it cannot be read. */
  async #bytesOf(path) {
    try {
      return (await this.#read(path === "" ? "zarr.json" : `${path}/zarr.json`)).bytes;
    } catch (error) {
      if (!(error instanceof ManifestError)) throw error;
      return error.code === "source_not_found" ? undefined : null;
    }
  }

  /** `source`: the metadata as they stand in a `zarr.json`. */
  async #checkArray(path, metadata, source) {
    const where = { array: path };
    const report = (error) => this.#report(error, where);
    const declaration = readDeclaration(metadata, report);
    numberProblems(source).forEach(report);
    if (!declaration) return;
    const context = arrayContext(path, metadata, declaration, this.#policy, report);
    if (context === null) return;
    outsideBlocks(declaration.partitions, context.documented).forEach(report);
    for (const block of this.#attempt(where, () => blocks(context)) ?? []) {
      const text = await this.#documentText(context, block, source);
      if (text !== null) this.#checkText(context, block, text);
    }
  }

  /** The text of a document, or null. */
  async #documentText(context, block, source) {
    const where = { array: context.path };
    const report = (error) => this.#report(error, where);
    const stored = await this.#attemptAsync(where, () => fetchDocument(context, block, report));
    if (stored === undefined || "missing" in stored) return null;
    if ("bytes" in stored) return this.#attempt(where, () => decodeText(stored.bytes)) ?? null;
    return inlineText(source);
  }

  #checkText({ path, layout, base, limits, declaration }, block, text) {
    const partition = block && { shape: declaration.partitionShape, block };
    checkDocument(text, { layout, base, limits, partition }, (error, chunk) => {
      this.#report(error, { array: path, ...(chunk === null ? {} : { chunk }) });
    });
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
    this.problems.push({ code, phase, array: array ?? where.array, chunk, message });
  }
}

/** The object in a `zarr.json`; null if it holds none. */
function metadataIn(bytes) {
  try {
    const metadata = bytes && parseJson(decodeText(bytes));
    return isObject(metadata) ? metadata : null;
  } catch (error) {
    if (error instanceof ManifestError) return null;
    throw error;
  }
}

/** The configurations of all declarations, as they stand in the metadata. */
function configurationNodes({ node }) {
  const transformers = memberOf(node, "storage_transformers");
  if (transformers?.type !== "Array") return [];
  return transformers.elements
    .filter(({ value }) => stringOf(memberOf(value, "name")) === NAME)
    .map(({ value }) => memberOf(value, "configuration"));
}

/** The text of an inline manifest, duplicates included. */
function inlineText({ text, node }) {
  const manifests = configurationNodes({ node }).map((configuration) => memberOf(configuration, "manifest"));
  const manifest = manifests.find((one) => one?.type === "Object");
  return manifest === undefined ? null : text.slice(...rangeOf(manifest));
}

/** Integers that are not written as such, although they are some. */
function numberProblems({ text, node }) {
  return configurationNodes({ node })
    .map((configuration) => memberOf(configuration, "partition_shape"))
    .flatMap((shape) => (shape?.type === "Array" ? shape.elements : []))
    .filter(({ value }) => isInteger(value) && !isPlainInteger(value, text))
    .map(() => new ManifestError("invalid_configuration", "partition_shape has a number with fraction or exponent"));
}

function stringOf(node) {
  return node?.type === "String" ? node.value : null;
}

function isInteger(node) {
  return node.type === "Number" && Number.isInteger(node.value);
}

function sameJson(a, b) {
  return JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value ?? null;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
}
