/**
 * The declaration: what an array's `storage_transformers` say, checked in the order of the
 * specification ("Precedence", step 1).
 */

import { canonicalKey } from "./chunk-keys.js";
import { checkDocumentChecksum } from "./checksums.js";
import { ManifestError } from "./errors.js";

/** The transformer's name. */
export const NAME = "chunk-manifest-json";

/** Codecs of manifest documents that this reader implements. */
export const DOCUMENT_CODECS = ["gzip", "zstd", "crc32c"];

const MEMBERS = ["manifest", "base", "codecs", "partition_shape", "partitions", "checksum"];
const CODECS = 2; // the place of its check among those of types
const PARTITION = "{partition}";
const DIGEST = "{digest}";
const DIGITS = 16; // of a digest, in the name of a document
const CODEC_MEMBERS = ["name", "configuration", "must_understand"];
const URL_PARTS = /^(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?:\/\/[^/?#]*)?([^?#]*)/;

/**
 * @typedef {object} Declaration
 * @property {string | Record<string, any>} manifest reference of the document, or the manifest
 * @property {string} base
 * @property {string[]} codecs names, in the order in which a writer applies them
 * @property {number[] | null} partitionShape
 * @property {"all" | string[] | Record<string, string> | null} partitions names of the blocks whose
 *   documents exist, which are not checked, perhaps with checksums; null if nothing says which do
 * @property {string | null} checksum of the only document
 */

/**
 * @param {unknown} value
 * @returns {value is Record<string, any>}
 */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Is told what is wrong. A reader's raises, a validator's collects and returns.
 * @typedef {(error: ManifestError) => void} Report
 */

/**
 * What a reader does with a problem.
 * @type {Report}
 */
export const raise = (error) => {
  throw error;
};

/**
 * The declaration of an array; null for a native one, and for one that cannot be made sense of.
 * @param {Record<string, any>} metadata the array's `zarr.json`
 * @param {Report} [report]
 * @returns {Declaration | null}
 */
export function readDeclaration(metadata, report = raise) {
  const transformers = metadata.storage_transformers ?? [];
  const check = checker(report);
  if (!check(Array.isArray(transformers), "storage_transformers is not a list")) return null;
  const declarations = transformers.map((transformer) => readTransformer(transformer, check, report));
  const names = transformers.map((one) => one?.name ?? one);
  if (names.filter((name) => name === NAME).length > 1) {
    report(new ManifestError("unsupported_transformer", `${NAME} is declared twice`));
  }
  if (Object.hasOwn(metadata, NAME)) {
    check(isLock(metadata[NAME]), `the lock ${NAME} is not {"must_understand": true}`);
    check(names.includes(NAME), `the declaration was lost: there is the lock ${NAME}, but no declaration`);
  }
  return declarations.find((one) => one !== null) ?? null;
}

function isLock(value) {
  return isObject(value) && Object.keys(value).join() === "must_understand" && value.must_understand === true;
}

/**
 * What the copies of an array's metadata must say alike; a lock may be missing.
 * @param {Record<string, any> | null} metadata
 */
export function declared(metadata) {
  const transformers = metadata?.storage_transformers ?? [];
  const lock = metadata !== null && Object.hasOwn(metadata, NAME) ? metadata[NAME] : null;
  return { transformers, lock: lock ?? (transformers.length === 0 ? null : { must_understand: true }) };
}

function checker(report) {
  return (condition, detail) => {
    if (!condition) report(new ManifestError("invalid_configuration", detail));
    return condition;
  };
}

function readTransformer(transformer, check, report) {
  const name = typeof transformer === "string" ? transformer : transformer?.name;
  const named = typeof transformer === "string" || (isObject(transformer) && typeof name === "string");
  if (!check(named, "a storage transformer is neither a string nor an object with a name")) return null;
  const mustUnderstand = Object.hasOwn(Object(transformer), "must_understand")
    ? transformer.must_understand
    : true;
  check(typeof mustUnderstand === "boolean", "must_understand is not a boolean");
  if (name === NAME) {
    check(mustUnderstand !== false, "must_understand is false: fill values would be read");
    return readOurs(transformer, check, report);
  }
  if (mustUnderstand !== false) {
    const detail = `the storage transformer ${JSON.stringify(name)} is not known; known: ${NAME}`;
    report(new ManifestError("unsupported_transformer", detail));
  }
  return null;
}

function readOurs(transformer, check, report) {
  if (!check(isObject(transformer), `${NAME} needs a configuration`)) return null;
  checkMembers(transformer, ["name", "configuration", "must_understand"], check);
  const { configuration } = transformer;
  if (!check(isObject(configuration), "configuration is not an object")) return null;
  checkMembers(configuration, MEMBERS, check);
  const usable = checkTypes(configuration, check, report);
  usable.push(usable[0] && checkManifest(configuration, check));
  if (!usable[CODECS]) return null;
  const { manifest, base = "./", codecs = [], checksum = null } = configuration;
  const { partition_shape: shape = null, partitions = null } = configuration;
  const names = codecs.map((codec) => (typeof codec === "string" ? codec : codec.name));
  usable.push(checkCodecs(names, report));
  if (usable.includes(false)) return null;
  return { manifest, base, codecs: names, partitionShape: shape, partitions, checksum };
}

/** Types of the members; which of them are usable. */
function checkTypes(configuration, check, report) {
  const { manifest, base, codecs, partition_shape: shape, partitions, checksum } = configuration;
  return [
    check(
      isObject(manifest) || (typeof manifest === "string" && manifest !== ""),
      "manifest is neither a reference nor an object",
    ),
    check(base === undefined || typeof base === "string", "base is not a string"),
    check(
      codecs === undefined || (Array.isArray(codecs) && codecs.every(isCodec)),
      "codecs is not a list of codecs",
    ),
    check(
      shape === undefined || (Array.isArray(shape) && shape.every(isPositiveInteger)),
      "partition_shape is not a list of positive integers",
    ),
    check(
      partitions === undefined || partitions === "all" || isObject(partitions) ||
        (Array.isArray(partitions) && partitions.every((name) => typeof name === "string")),
      'partitions is neither "all" nor a list of names, nor an object',
    ),
    checkChecksums(isObject(partitions) ? partitions : {}, report),
    checkChecksums(checksum === undefined ? {} : { checksum }, report),
  ];
}

/** Checksums by the names that they stand at. */
function checkChecksums(checksums, report) {
  try {
    for (const name of Object.keys(checksums)) checkDocumentChecksum(checksums[name], name);
    return true;
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    report(error);
    return false;
  }
}

/** The rules of `{partition}`, of `{digest}` and of inline manifests. */
function checkManifest(configuration, check) {
  const { manifest } = configuration;
  const partitioned = Object.hasOwn(configuration, "partition_shape");
  const listed = Object.hasOwn(configuration, "partitions");
  const meaningful = check(partitioned || !listed, "partitions stands without a partition_shape");
  return checkTemplate(manifest, partitioned, configuration, check) && meaningful;
}

function checkTemplate(manifest, partitioned, configuration, check) {
  if (typeof manifest !== "string") {
    const alone = check(!partitioned, "partition_shape stands beside an inline manifest");
    const other = ["codecs", "checksum"].find((name) => Object.hasOwn(configuration, name));
    return check(other === undefined, `${other} stands beside an inline manifest`) && alone;
  }
  const single = Object.hasOwn(configuration, "checksum");
  const digests = single || isObject(configuration.partitions);
  return [
    check(!(partitioned && single), "checksum stands beside a partition_shape"),
    partitioned
      ? check(isOnceInPath(manifest, PARTITION), `manifest does not contain ${PARTITION} once, in its path`)
      : check(!manifest.includes(PARTITION), `${PARTITION} needs a partition_shape`),
    digests
      ? check(!manifest.includes(DIGEST) || isOnceInPath(manifest, DIGEST), `${DIGEST} is not there once, in the path`)
      : check(!manifest.includes(DIGEST), `${DIGEST} needs checksums`),
  ].every(Boolean);
}

function isOnceInPath(template, placeholder) {
  const occurrences = (text) => text.split(placeholder).length - 1;
  return occurrences(template) === 1 && occurrences(URL_PARTS.exec(template)?.[1] ?? "") === 1;
}

function checkCodecs(names, report) {
  const unknown = names.find((name) => !DOCUMENT_CODECS.includes(name));
  if (unknown === undefined) return true;
  const detail = `the codec ${JSON.stringify(unknown)} of manifests is not known`;
  report(new ManifestError("unsupported_transformer", `${detail}; known: ${DOCUMENT_CODECS.join(", ")}`));
  return false;
}

function checkMembers(object, known, check) {
  const unknown = Object.keys(object).filter((key) => !known.includes(key));
  check(unknown.length === 0, `unknown member ${JSON.stringify(unknown[0])}`);
}

/**
 * The checksum of a block's document, or of the only one; null if it has none.
 * @param {Declaration} declaration
 * @param {number[] | null} block
 */
export function checksumOf({ partitions, checksum }, block) {
  if (block === null) return checksum;
  return isObject(partitions) ? (partitions[canonicalKey(block)] ?? null) : null;
}

/**
 * The reference of a block's document, or of the only one.
 * @param {string} template
 * @param {number[] | null} block
 * @param {string | null} checksum
 */
export function documentReference(template, block, checksum) {
  const named = block === null ? template : template.split(PARTITION).join(canonicalKey(block));
  if (checksum === null) return named;
  return named.split(DIGEST).join(checksum.split(":")[1].slice(0, DIGITS));
}

function isCodec(codec) {
  if (typeof codec === "string") return true;
  if (!isObject(codec) || typeof codec.name !== "string") return false;
  const { configuration = {}, must_understand: mustUnderstand = true } = codec;
  const known = Object.keys(codec).every((key) => CODEC_MEMBERS.includes(key));
  return known && isObject(configuration) && typeof mustUnderstand === "boolean";
}

function isPositiveInteger(value) {
  return Number.isSafeInteger(value) && value > 0;
}
