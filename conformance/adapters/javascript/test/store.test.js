/** The store, as zarrita uses it: a hierarchy in memory, and one behind a `fetch` that misbehaves. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import * as zarr from "zarrita";

import { withChunkManifests } from "../src/index.js";
import { arrayMetadata } from "./arrays.js";

const encode = (value) => new TextEncoder().encode(JSON.stringify(value));

const SOURCE = new Uint8Array(BigInt64Array.from([7n, 8n, 9n]).buffer);
const MANIFEST = {
  0: { path: "../source.bin", offset: 8, length: 8 }, 1: {}, 2: { data: "BQAAAAAAAAA=" },
};

function hierarchy(manifest = MANIFEST) {
  return new Map([
    ["/zarr.json", encode({ zarr_format: 3, node_type: "group", attributes: {} })],
    ["/source.bin", SOURCE],
    ["/a/zarr.json", encode(arrayMetadata({ manifest: "./manifest.json" }))],
    ["/a/manifest.json", encode(manifest)],
    // A native chunk of a manifest array, which nobody may read.
    ["/a/c/3", SOURCE.slice(0, 8)],
    ["/native/zarr.json", encode(arrayMetadata())],
    ["/native/c/3", SOURCE.slice(0, 8)],
  ]);
}

async function values(store, path) {
  const array = await zarr.open(zarr.root(store).resolve(path), { kind: "array" });
  return [...(await zarr.get(array)).data];
}

test("a manifest array and a native one read side by side", async () => {
  const store = withChunkManifests(hierarchy());
  assert.deepEqual(await values(store, "a"), [8n, -1n, 5n, -1n]);
  assert.deepEqual(await values(store, "native"), [-1n, -1n, -1n, 7n]);
});

test("a chunk's owner is found without its zarr.json having been asked for", async () => {
  const store = withChunkManifests(hierarchy());
  assert.deepEqual(await store.get("/a/c/0"), SOURCE.slice(8, 16));
  assert.equal(await store.get("/a/c/3"), undefined);
  assert.deepEqual(await store.getRange("/a/c/0", { suffixLength: 99 }), SOURCE.slice(8, 16));
});

test("missing chunks can be errors, and explicitly empty ones are not", async () => {
  const store = withChunkManifests(hierarchy(), { missing: "error" });
  await assert.rejects(store.get("/a/c/3"), { code: "missing_chunk", array: "a", chunk: "3" });
  await assert.rejects(store.get("/native/c/0"), { code: "missing_chunk" });
  assert.equal(await store.get("/a/c/1"), undefined);
});

test("listing names what the manifest names", async () => {
  const store = withChunkManifests(hierarchy());
  assert.deepEqual(await store.listChunks("a"), ["0", "1", "2"]);
  assert.deepEqual(await store.listChunks("native"), ["3"]);
});

test("what a store of zarrita's cannot read is an error of the source, and shows no secret", async () => {
  const files = hierarchy();
  const failing = (part) => ({
    get: (key) => {
      if (key.endsWith(part)) throw new Error("status 403 for https://h/?SECRET");
      return files.get(key);
    },
  });
  for (const [part, phase] of [["a/zarr.json", "declaration"], ["manifest.json", "manifest"], ["source.bin", "chunk"]]) {
    await assert.rejects(withChunkManifests(failing(part)).get("/a/c/0"), (error) => {
      assert.doesNotMatch(error.message, /SECRET/);
      return error.code === "source_error" && error.phase === phase;
    });
  }
});

const checksum = (bytes) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

test("a document that has not its checksum is asked for once more, past caches", async () => {
  const [right, stale] = [encode(MANIFEST), encode({})];
  for (const answers of [[right], [stale, right], [stale, stale], [stale, undefined]]) {
    const files = hierarchy();
    files.set("/a/zarr.json", encode(arrayMetadata({ manifest: "m-{digest}.json", checksum: checksum(right) })));
    const asked = [];
    const get = (key, { cache }) => {
      if (!key.startsWith("/a/m-")) return files.get(key);
      assert.equal(key, `/a/m-${checksum(right).slice(7, 23)}.json`);
      return answers[asked.push(cache) - 1];
    };
    const reading = values(withChunkManifests({ get }), "a");
    const last = answers.at(-1);
    if (last === right) assert.deepEqual(await reading, [8n, -1n, 5n, -1n]);
    else {
      const code = last === stale ? "checksum_mismatch" : "manifest_not_found";
      await assert.rejects(reading, { code, phase: "manifest", array: "a" });
    }
    assert.deepEqual(asked, [undefined, "reload"].slice(0, answers.length));
  }
});

test("own metadata that are behind do not count, and what removes a node counts", async () => {
  const files = hierarchy();
  const own = files.get("/a/zarr.json");
  const copy = arrayMetadata({ manifest: { 0: { data: "BQAAAAAAAAA=" } } });
  const root = (metadata, pending) => {
    const consolidated = { kind: "inline", must_understand: false, metadata, pending };
    const node = { zarr_format: 3, node_type: "group", attributes: {}, consolidated_metadata: consolidated };
    return files.set("/zarr.json", encode(node));
  };
  const [old, changed] = [[8n, -1n, 5n, -1n], [5n, -1n, -1n, -1n]];
  for (const consolidated of [true, false]) {
    const read = () => values(withChunkManifests(files, { consolidated }), "a");
    root({ a: copy }, { a: checksum(own) });
    assert.deepEqual(await read(), changed);
    root({ a: copy }, { a: checksum(encode({})) });
    assert.deepEqual(await read(), consolidated ? changed : old);
    root({}, { a: checksum(own) });
    await assert.rejects(read(), { name: "NotFoundError" });
    root({}, { a: null });
    assert.deepEqual(await read(), old);
    root({}, { a: checksum(own).toUpperCase() });
    await assert.rejects(read(), { code: "invalid_configuration", phase: "declaration" });
    files.delete("/a/zarr.json");
    root({ a: copy }, { a: null });
    assert.deepEqual(await read(), changed);
    files.set("/a/zarr.json", own);
  }
});

test("a group below the root says what is pending, too; the topmost one's copy counts", async () => {
  const files = hierarchy();
  const inline = (data) => arrayMetadata({ manifest: { 0: { data } } });
  const own = encode(inline("BAAAAAAAAAA="));
  files.set("/g/a/zarr.json", own);
  const group = (path, metadata, pending) => {
    const consolidated = { kind: "inline", must_understand: false, metadata, pending };
    const node = { zarr_format: 3, node_type: "group", attributes: {}, consolidated_metadata: consolidated };
    return files.set(path, encode(node));
  };
  const read = (options) => values(withChunkManifests(files, options), "g/a");
  group("/g/zarr.json", { a: inline("BQAAAAAAAAA=") }, { a: checksum(own) });
  for (const consolidated of [true, false]) assert.deepEqual(await read({ consolidated }), [5n, -1n, -1n, -1n]);
  group("/zarr.json", { "g/a": inline("BgAAAAAAAAA=") }, { "g/a": checksum(own) });
  for (const consolidated of [true, false]) assert.deepEqual(await read({ consolidated }), [6n, -1n, -1n, -1n]);
  group("/zarr.json", {}, {});
  group("/g/zarr.json", {}, { "g/a": checksum(own) });
  assert.deepEqual(await read(), [4n, -1n, -1n, -1n]);
});

test("nothing is written", async () => {
  await assert.rejects(withChunkManifests(hierarchy()).set("/a/c/0"), { code: "read_only" });
});

test("errors are zarrita's callers' to see", async () => {
  const missing = withChunkManifests(hierarchy({ 0: { path: "gone.bin" } }));
  await assert.rejects(values(missing, "a"), { code: "source_not_found", phase: "chunk", chunk: "0" });
  const foreign = withChunkManifests(hierarchy({ 0: { path: "https://h/x?secret" } }));
  await assert.rejects(values(foreign, "a"), (error) => {
    assert.equal(error.code, "location_not_allowed");
    assert.doesNotMatch(error.message, /secret/);
    return true;
  });
});

/** The only array of a hierarchy, whose chunks are read from `source`. */
function oneArray(source, entry, changes) {
  return withChunkManifests(
    new Map([
      ["/source.bin", source],
      ["/a/zarr.json", encode({ ...arrayMetadata({ manifest: { 0: { path: "../source.bin", ...entry } } }), ...changes })],
    ]),
  );
}

test("a chunk that decodes to too few or too many elements is an error", async () => {
  const numbers = new Uint8Array(Int32Array.from([7, 8]).buffer);
  const int32 = { data_type: "int32" };
  assert.deepEqual(await values(oneArray(numbers, { length: 4 }, int32), "a"), [7, -1, -1, -1]);
  await assert.rejects(values(oneArray(numbers, {}, int32), "a"), /0 of \/a has 2 elements where its shape says 1/);
  const grid = { name: "regular", configuration: { chunk_shape: [2] } };
  const short = oneArray(numbers, { length: 4 }, { ...int32, chunk_grid: grid });
  await assert.rejects(values(short, "a"), /1 elements where its shape says 2/);
  const open = await zarr.open(zarr.root(short.rootedAt("a")), { kind: "array" });
  await assert.rejects(zarr.get(open), /1 elements where its shape says 2/);
});

test("an index of a shard that is too short is an error", async () => {
  const bytes = { name: "bytes", configuration: { endian: "little" } };
  const configuration = { chunk_shape: [1], codecs: [bytes], index_codecs: [bytes], index_location: "end" };
  const sharded = {
    chunk_grid: { name: "regular", configuration: { chunk_shape: [4] } },
    codecs: [{ name: "sharding_indexed", configuration }],
  };
  // A whole index has 64 bytes: for each of the four chunks, where it is and how long.
  const index = new Uint8Array(BigUint64Array.from([0n, 8n, 0n, 8n]).buffer);
  await assert.rejects(values(oneArray(index, {}, sharded), "a"));
});

function partitioned(more, documents) {
  return new Map([
    ["/a/zarr.json", encode(arrayMetadata({ manifest: "./m/{partition}", partition_shape: [2], ...more }))],
    ["/source.bin", SOURCE],
    ...Object.entries(documents).map(([block, document]) => [`/a/m/${block}`, encode(document)]),
  ]);
}

test("a lost document is an error where the declaration says that it exists", async () => {
  const entry = { path: "../source.bin", length: 8 };
  const first = { 0: entry };
  assert.deepEqual(await values(withChunkManifests(partitioned({}, { 0: first })), "a"), [7n, -1n, -1n, -1n]);
  for (const partitions of ["all", ["0", "1"], ["1"]]) {
    const store = withChunkManifests(partitioned({ partitions }, { 0: first }));
    const lost = { code: "manifest_not_found", phase: "manifest", array: "a" };
    await assert.rejects(store.get("/a/c/2"), lost);
    await assert.rejects(store.listChunks("a"), lost);
  }
  // The document of a block that is not named is not looked at.
  const store = withChunkManifests(partitioned({ partitions: ["1", "7"] }, { 0: 5, 1: { 2: entry } }));
  assert.deepEqual(await values(store, "a"), [-1n, -1n, 7n, -1n]);
  assert.deepEqual(await store.listChunks("a"), ["2"]);
});

test("listing asks for a limited number of documents", async () => {
  const store = withChunkManifests(partitioned({}, {}), { limits: { partitions: 1 } });
  await assert.rejects(store.listChunks("a"), { code: "limit_exceeded", phase: "manifest" });
  assert.equal(await store.get("/a/c/0"), undefined);
  const named = partitioned({ partitions: ["1"] }, { 1: { 2: {} } });
  assert.deepEqual(await withChunkManifests(named, { limits: { partitions: 1 } }).listChunks("a"), ["2"]);
});

test("what is wrong in an inline manifest is a problem of the manifest", async () => {
  for (const [manifest, limits, code] of [
    [{ 0: { data: "AA==" } }, { manifestBytes: 20 }, "limit_exceeded"],
    [{ 0: { data: "AA==" } }, { inlineBytes: 0 }, "limit_exceeded"],
    [{ 0: {}, 1: {} }, { entries: 1 }, "limit_exceeded"],
    [{ 0: { path: "x", _n: [[]] } }, { nesting: 3 }, "limit_exceeded"],
    [{ 0: { path: "\ud800" } }, {}, "invalid_json"],
    [{ 0: { path: "x", "\udc00:": 1 } }, {}, "invalid_json"],
    [{ 0: 1 }, {}, "invalid_entry"],
    [{ x: {} }, {}, "invalid_chunk_key"],
    [{ 0: { path: "#" } }, {}, "invalid_path"],
    [{ 0: { path: "s3://b/x" } }, {}, "location_not_allowed"],
  ]) {
    const store = withChunkManifests(new Map([["/a/zarr.json", encode(arrayMetadata({ manifest }))]]), { limits });
    await assert.rejects(store.getChunk("a", [0]), { code, phase: "manifest" }, JSON.stringify(manifest));
  }
});

test("the bytes of an inline manifest are those of its compact JSON in UTF-8", async () => {
  const manifest = { 0: { data: "AA==", "_\u20ac": "\u{1f600}" } };
  const text = Buffer.from('{"0":{"data":"AA==","_\u20ac":"\u{1f600}"}}');
  const inline = new Map([["/a/zarr.json", Buffer.from(JSON.stringify(arrayMetadata({ manifest }), null, 2))]]);
  const read = (manifestBytes) => withChunkManifests(inline, { limits: { manifestBytes } }).getChunk("a", [0]);
  assert.equal((await read(text.length)).length, 1);
  await assert.rejects(read(text.length - 1), { code: "limit_exceeded" });
});

/** Answers by URL; what was asked is kept. */
function fakeServer(answers) {
  const requests = [];
  const fetch = async (url, init) => {
    requests.push({ url, ...init });
    const answer = answers[url];
    return typeof answer === "function" ? answer(init) : new Response(answer ?? null, { status: answer ? 200 : 404 });
  };
  return { requests, fetch };
}

test("headers of a prefix do not follow a redirect", async () => {
  const { requests, fetch } = fakeServer({
    "https://one/x": () => new Response(null, { status: 302, headers: { Location: "https://two/x" } }),
    "https://two/x": SOURCE.slice(0, 8),
  });
  const store = withChunkManifests(hierarchy({ 0: { path: "https://one/x" } }), {
    allow: [{ prefix: "https://one/", headers: { Authorization: "secret" } }, "https://two/"],
    fetch,
  });
  assert.deepEqual(await store.get("/a/c/0"), SOURCE.slice(0, 8));
  const identity = { "Accept-Encoding": "identity" };
  assert.deepEqual(requests.map(({ headers }) => headers), [{ ...identity, Authorization: "secret" }, identity]);
  assert.ok(requests.every(({ credentials }) => credentials === "omit"));
});

test("a redirect that a browser hides is refused", async () => {
  const opaque = () => Object.defineProperty(new Response(null), "type", { value: "opaqueredirect" });
  const { fetch } = fakeServer({ "https://one/x": opaque });
  const store = withChunkManifests(hierarchy({ 0: { path: "https://one/x" } }), {
    allow: ["https://one/"], fetch,
  });
  await assert.rejects(store.get("/a/c/0"), { code: "location_not_allowed", phase: "chunk" });
});

test("a document is loaded once, and again after it failed", async () => {
  let failing = true;
  const { requests, fetch } = fakeServer({
    "https://h/a/zarr.json": encode(arrayMetadata({ manifest: "./manifest.json" })),
    "https://h/a/manifest.json": () =>
      new Response(failing ? null : encode({ 2: MANIFEST[2] }), { status: failing ? 403 : 200 }),
  });
  const store = withChunkManifests("https://h/", { fetch });
  await assert.rejects(store.get("/a/c/2"), { code: "source_access_denied", phase: "manifest" });
  failing = false;
  await Promise.all([store.get("/a/c/0"), store.get("/a/c/2")]);
  await store.get("/a/c/1");
  assert.equal(requests.filter(({ url }) => url.endsWith("manifest.json")).length, 2);
});
