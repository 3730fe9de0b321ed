/** Objects on HTTP servers, real ones: redirects, statuses, conditions, encodings. */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { brotliCompressSync, gzipSync } from "node:zlib";

import { withChunkManifests } from "../src/index.js";
import { arrayMetadata, VALUE } from "./arrays.js";

/** What the servers answer, by path: a function of the request, or bytes. */
const answers = {};
let requests = [];
const servers = [];
let [ONE, TWO] = [];

before(async () => {
  for (const name of ["one", "two"]) servers.push(createServer((request, response) => respond(name, request, response)));
  [ONE, TWO] = await Promise.all(servers.map(listen));
});
after(() => servers.forEach((server) => server.close()));

function listen(server) {
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve(`http://127.0.0.1:${server.address().port}`));
  });
}

function respond(server, request, response) {
  requests.push({ server, url: request.url, headers: request.headers });
  const answer = answers[request.url] ?? answers[request.url.split("?")[0]];
  const { status = 200, headers = {}, body = "" } = typeof answer === "function" ? answer(request) : answer ?? { status: 404 };
  response.writeHead(status, headers).end(body);
}

function serve(more) {
  for (const path of Object.keys(answers)) delete answers[path];
  Object.assign(answers, more);
  requests = [];
}

const json = (value) => ({ body: JSON.stringify(value) });
const to = (location, status = 302) => ({ status, headers: { Location: location } });
const asked = () => requests.map(({ server, url }) => server + url);

/** A hierarchy on the first server with one array, whose chunk 0 is what an entry says. */
function serveEntry(entry, more) {
  serve({ "/h/a/zarr.json": json(arrayMetadata({ manifest: { 0: entry } })), "/h/x": { body: VALUE }, "/x": { body: VALUE }, ...more });
}

const chunk = (options) => withChunkManifests(`${ONE}/h/`, options).getChunk("a", [0]);
const refused = (phase) => ({ code: "location_not_allowed", phase });

test("redirects within the hierarchy need no authorisation", async () => {
  serve({
    "/h/a/zarr.json": () => to(`${ONE}/h/moved.json`),
    "/h/moved.json": json(arrayMetadata({ manifest: "../m" })),
    "/h/m": () => to("./m2", 307),
    "/h/m2": json({ 0: { path: "../s" } }),
    "/h/s": () => to("/h/x", 308),
    "/h/x": { body: VALUE },
  });
  assert.deepEqual(await chunk(), VALUE);
});

for (const [what, target] of [
  ["another origin", () => `${TWO}/h/x`],
  ["beside the hierarchy", () => `${ONE}/hh/x`],
  ["above the hierarchy", () => `${ONE}/x`],
  ["out of the hierarchy by dots", () => `${ONE}/h/%2e%2e/x`],
  ["user information", () => `${ONE.replace("//", "//u:SECRET@")}/h/x`],
  ["another scheme", () => "ftp://127.0.0.1/h/x"],
  ["a file", () => "file:///h/x"],
]) {
  test(`a redirect to ${what} is refused in the phase of what was read`, async () => {
    const place = target();
    const moved = () => to(`${place}?SECRET`);
    const hidden = (phase) => (error) => {
      assert.doesNotMatch(error.message, /SECRET/);
      return error.code === "location_not_allowed" && error.phase === phase;
    };
    serve({ "/h/a/zarr.json": moved });
    await assert.rejects(chunk(), hidden("declaration"));
    serve({ "/h/a/zarr.json": json(arrayMetadata({ manifest: "m" })), "/h/a/m": moved });
    await assert.rejects(chunk(), hidden("manifest"));
    serveEntry({ path: "s" }, { "/h/a/s": moved });
    await assert.rejects(chunk(), hidden("chunk"));
    serve({ "/h/a/zarr.json": json(arrayMetadata()), "/h/a/c/0": moved });
    await assert.rejects(chunk(), hidden("chunk"));
    assert.ok(!asked().some((url) => url.endsWith("/x?SECRET")));
  });
}

test("authorised targets are read with their own access, and from sources into the hierarchy", async () => {
  serveEntry({ path: "s" }, { "/h/a/s": () => to(`${TWO}/x`), "/x": () => ({ body: VALUE }) });
  assert.deepEqual(await chunk({ allow: [{ prefix: `${TWO}/`, headers: { "X-Two": "2" } }] }), VALUE);
  assert.equal(requests.at(-1).headers["x-two"], "2");
  serveEntry({ path: `${TWO}/s` }, { "/s": () => to(`${ONE}/h/x`) });
  assert.deepEqual(await chunk({ allow: [{ prefix: `${TWO}/s`, headers: { "X-Two": "2" } }] }), VALUE);
  assert.equal(requests.at(-1).headers["x-two"], undefined);
  // The longest prefix counts, among those of the user and the hierarchy's own URL.
  serveEntry({ path: "s" }, { "/h/a/s": () => to("/h/x") });
  assert.deepEqual(await chunk({ allow: [{ prefix: `${ONE}/h/x`, headers: { "X-One": "1" } }, `${ONE}/`] }), VALUE);
  assert.equal(requests.at(-1).headers["x-one"], "1");
});

test("a URL of the hierarchy's own needs authorisation in an entry", async () => {
  serveEntry({ path: `${ONE}/h/x` });
  await assert.rejects(chunk(), refused("manifest"));
  assert.deepEqual(await chunk({ allow: [`${ONE}/h`] }), VALUE);
});

test("five redirects are followed, and not more, nor a circle, nor one that leads nowhere", async () => {
  const chain = Object.fromEntries(Array.from({ length: 6 }, (_, i) => [`/h/r${i}`, () => to(`/h/r${i - 1}`)]));
  chain["/h/r0"] = { body: VALUE };
  chain["/h/r6"] = () => to("/h/r5");
  serveEntry({ path: "../r5" }, chain);
  assert.deepEqual(await chunk(), VALUE);
  const failure = { code: "source_error", phase: "chunk" };
  for (const [path, more] of [
    ["../r6", chain],
    ["../s", { "/h/s": () => to("/h/s") }],
    ["../s", { "/h/s": { status: 302 } }],
    ["../s", { "/h/s": to("http://[/") }],
    ["../s", { "/h/s": { status: 304 } }],
  ]) {
    serveEntry({ path }, more);
    await assert.rejects(chunk(), failure);
  }
});

for (const [status, code] of [
  [404, "source_not_found"], [410, "source_not_found"], [401, "source_access_denied"], [403, "source_access_denied"],
  [400, "source_error"], [405, "source_error"], [412, "source_error"], [418, "source_error"], [500, "source_error"],
  [204, "source_error"], [206, "source_error"], [416, "source_error"],
]) {
  test(`status ${status} of a source, a document and metadata`, async () => {
    serveEntry({ path: "s" }, { "/h/a/s": { status } });
    await assert.rejects(chunk(), { code, phase: "chunk" });
    const configuration = { manifest: "{partition}", partition_shape: [1] };
    serve({ "/h/a/zarr.json": json(arrayMetadata(configuration)), "/h/a/0": { status } });
    if (code === "source_not_found") assert.equal(await chunk(), undefined);
    else await assert.rejects(chunk(), { code, phase: "manifest" });
    serve({ "/h/a/zarr.json": { status } });
    const store = withChunkManifests(`${ONE}/h/`);
    if (code === "source_not_found") assert.equal(await store.get("/a/zarr.json"), undefined);
    else await assert.rejects(store.get("/a/zarr.json"), { code, phase: "declaration" });
  });
}

/** A server that compares entity tags as RFC 9110 says: strongly. */
const strict = (etag) => (request) => {
  const wanted = request.headers["if-match"];
  return wanted === undefined || (wanted === etag && !etag.startsWith("W/"))
    ? { headers: { ETag: etag }, body: VALUE }
    : { status: 412 };
};

test("a weak tag is not sent, and one that a server refuses is compared", async () => {
  const ifMatch = () => requests.filter(({ url }) => url === "/h/x").map(({ headers }) => headers["if-match"]);
  for (const [stated, etag, sent] of [
    ['W/"v1"', '"v1"', [undefined]],
    ['W/"v1"', 'W/"v1"', [undefined]],
    ['"v1"', '"v1"', ['"v1"']],
    ["v1", 'W/"v1"', ['"v1"', undefined]],
  ]) {
    serveEntry({ path: "../x", etag: stated }, { "/h/x": strict(etag) });
    assert.deepEqual(await chunk(), VALUE);
    assert.deepEqual(ifMatch(), sent);
    serveEntry({ path: "../x", etag: "v2" }, { "/h/x": strict(etag) });
    await assert.rejects(chunk(), { code: "source_changed" });
  }
  serveEntry({ path: "../x", etag: "v1" }, { "/h/x": { status: 412 } });
  await assert.rejects(chunk(), { code: "source_error", phase: "chunk" });
  assert.deepEqual(ifMatch(), ['"v1"', undefined]);
});

test("conditions are sent on to the target of a redirect", async () => {
  serveEntry({ path: "s", etag: "v1" }, { "/h/a/s": () => to("/h/x"), "/h/x": strict('"v1"') });
  assert.deepEqual(await chunk(), VALUE);
  assert.equal(requests.at(-1).headers["if-match"], '"v1"');
});

test("only stores have versions, and only theirs are compared", async () => {
  const headers = { "x-amz-version-id": "v 1" };
  for (const version of ["v 1", "v2"]) {
    serveEntry({ path: "../x", version }, { "/h/x": { headers, body: VALUE } });
    await assert.rejects(chunk(), { code: "source_changed", phase: "chunk" });
  }
  serveEntry({ path: "../gone", version: "v 1" });
  await assert.rejects(chunk(), { code: "source_not_found" });
  const allow = [{ prefix: "s3://b/", endpoint: ONE }];
  serveEntry({ path: "s3://b/x", version: "v 1" }, { "/b/x?versionId=v%201": { headers, body: VALUE } });
  assert.deepEqual(await chunk({ allow }), VALUE);
  serveEntry({ path: "s3://b/x", version: "v 1" }, { "/b/x": { body: VALUE } });
  await assert.rejects(chunk({ allow }), { code: "source_changed" });
  serveEntry({ path: "s3://b/gone", version: "v 1" });
  await assert.rejects(chunk({ allow }), { code: "source_changed" });
});

test("identity is asked for, always", async () => {
  for (const range of [{}, { length: 8 }]) {
    serveEntry({ path: "s", ...range }, {
      "/h/a/s": () => to("/h/x"),
      "/h/x": ({ headers }) =>
        headers.range ? { status: 206, headers: { "Content-Range": "bytes 0-7/8" }, body: VALUE } : { body: VALUE },
    });
    assert.deepEqual(await chunk(), VALUE);
  }
  assert.deepEqual(new Set(requests.map(({ headers }) => headers["accept-encoding"])), new Set(["identity"]));
});

test("a range of an encoding is never taken for one of the object", async () => {
  for (const encoding of ["gzip", "GZIP", "br", "identity, gzip", "x"]) {
    const headers = { "Content-Encoding": encoding, "Content-Range": "bytes 0-7/99" };
    serveEntry({ path: "../x", length: 8 }, { "/h/x": { status: 206, headers, body: VALUE } });
    await assert.rejects(chunk(), { code: "source_error", phase: "chunk" });
  }
  const headers = { "Content-Encoding": "identity", "Content-Range": "bytes 0-7/99" };
  serveEntry({ path: "../x", length: 8 }, { "/h/x": { status: 206, headers, body: VALUE } });
  assert.deepEqual(await chunk(), VALUE);
});

test("of a whole object, only what was decoded is taken", async () => {
  for (const [encoding, encode] of [["gzip", gzipSync], ["br", brotliCompressSync]]) {
    const encoded = { headers: { "Content-Encoding": encoding }, body: encode(VALUE) };
    serveEntry({ path: "../x" }, { "/h/x": encoded });
    assert.deepEqual(await chunk(), VALUE);
    serveEntry({ path: "../x", length: 9 }, { "/h/x": encoded });
    await assert.rejects(chunk(), { code: "source_error" });
  }
  for (const encoding of ["x", "gzip", "gzip, x"]) {
    serveEntry({ path: "../x" }, { "/h/x": { headers: { "Content-Encoding": encoding }, body: VALUE } });
    await assert.rejects(chunk(), { code: "source_error", phase: "chunk" }, encoding);
  }
});

test("a request for no bytes needs no source", async () => {
  serveEntry({ path: "../gone", length: 8 });
  const store = withChunkManifests(`${ONE}/h/`);
  for (const range of [{ start: 3, end: 3 }, { last: 0 }, { start: 8 }, { start: 9, end: 20 }]) {
    assert.equal((await store.getChunk("a", [0], range)).length, 0);
  }
});

test("a URL that cannot be compared is no home, but can be read", async () => {
  serve({ "/a%2Fb/a/zarr.json": json(arrayMetadata({ manifest: { 0: { path: "x" } } })), "/a%2Fb/a/x": { body: VALUE } });
  assert.deepEqual(await withChunkManifests(`${ONE}/a%2Fb`).getChunk("a", [0]), VALUE);
});
