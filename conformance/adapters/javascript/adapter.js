/**
 * The JavaScript reader of this directory (`src/`, with zarrita) for the conformance suite.
 *
 * Run as `node conformance/adapters/javascript/adapter.js`.
 */

import { createRequire } from "node:module";

import * as zarr from "zarrita";

import { RefusedError, serve } from "./json-lines.js";
import { httpHierarchy, ManifestError, withChunkManifests } from "./src/index.js";
import { directory, findNodes, readFile } from "./src/node.js";
import { validate } from "./src/validate.js";
import { emptyValues, openArray, readValues } from "./values.js";

const { version } = createRequire(import.meta.url)("./package.json");

const FEATURES = [
  "read", "get_chunk", "list", "validate", "http", "s3", "s3-versions", "hierarchy-http", "sharding",
  "blosc", "zstd", "gzip", "crc32c", "transpose", "encoded-manifests", "manifest-zstd", "partitions",
  "document-digests", "checksums", "source-conditions", "base-override", "verify-policy",
  "missing-error", "limits", "consolidated", "own-metadata",
];

function open(request) {
  const { hierarchy, allow = [], base = null, verify = "auto", missing = "fill", limits = {} } = request;
  const { consolidated = true } = request;
  const remote = request.via === "http";
  const reader = remote ? httpHierarchy(hierarchy) : directory(hierarchy);
  const options = {
    allow: allow.map(({ prefix, endpoint, region }) => ({ prefix, endpoint, region })),
    base,
    verify,
    missing,
    consolidated,
    limits: readLimits(limits),
    files: readFile,
  };
  const nodes = () => {
    if (remote) throw new Error("an HTTP server does not list the nodes of a hierarchy");
    return findNodes(hierarchy);
  };
  return { reader, options, nodes, store: withChunkManifests(reader, options) };
}

function readLimits(limits) {
  const names = {
    manifest_bytes: "manifestBytes", entries: "entries", inline_bytes: "inlineBytes",
    path_length: "pathLength",
  };
  return Object.fromEntries(Object.entries(limits).map(([name, n]) => [names[name], n]));
}

const operations = {
  read: reading(async ({ store }, { array, selection = null }) => {
    const opened = await openArray(zarr.root(store.rootedAt(array)));
    return emptyValues(opened, selection) ?? readValues(opened, selection);
  }),
  get_chunk: reading(async ({ store }, { array, chunk, range = null }) => {
    const bytes = await store.getChunk(array, chunk, readRange(range));
    return { data: bytes === undefined ? null : Buffer.from(bytes).toString("base64") };
  }),
  list: reading(async ({ store }, { array }) => ({ chunks: await store.listChunks(array) })),
  validate: refusing(async ({ reader, options, nodes }) => ({
    problems: await validate(reader, await nodes(), options),
  })),
};

function readRange(range) {
  return range !== null && "stop" in range ? { start: range.start, end: range.stop } : range;
}

/** The same operation, with errors as the protocol wants them. */
function refusing(operation) {
  return async (...parameters) => {
    try {
      return await operation(...parameters);
    } catch (error) {
      throw refusalIn(error) ?? error;
    }
  };
}

/** The same operation, where errors of any other kind are zarrita's: of codecs, data types, metadata. */
function reading(operation) {
  return async (...parameters) => {
    try {
      return await operation(...parameters);
    } catch (error) {
      throw refusalIn(error) ?? new RefusedError("zarr_error", null, `${error.name}: ${error.message}`);
    }
  };
}

/** zarrita may say why it failed in a cause. */
function refusalIn(error) {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof ManifestError) return new RefusedError(cause.code, cause.phase, cause.message);
  }
  return null;
}

await serve({
  name: "chunk-manifest-json for zarrita",
  version,
  features: FEATURES,
  open: refusing(open),
  operations,
});
