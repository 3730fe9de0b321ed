/** Local files: symbolic links, what is no file, and what is not there. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { withChunkManifests } from "../src/index.js";
import { directory, findNodes, readFile } from "../src/node.js";
import { realPlace } from "../src/real-paths.js";
import { arrayMetadata, VALUE } from "./arrays.js";

let root;
const at = (...names) => join(root, ...names);
const url = (...names) => `file://${at(...names)}`;

before(async () => {
  root = await mkdtemp(join(tmpdir(), "files-"));
  for (const name of ["h", "allowed", "other", "h/a", "h/a/c", "h/sub"]) await mkdir(at(name));
  for (const name of ["h/in.bin", "allowed/f.bin", "other/f.bin"]) await writeFile(at(name), VALUE);
  await writeFile(at("h/zarr.json"), JSON.stringify({ zarr_format: 3, node_type: "group" }));
});
after(() => rm(root, { recursive: true }));

/** The store of a hierarchy with one array, whose chunk 0 has an entry. */
async function storeOf(entry, { allow = ["allowed"], ...configuration } = {}) {
  const declared = { manifest: { 0: entry }, ...configuration };
  await writeFile(at("h/a/zarr.json"), JSON.stringify(arrayMetadata(declared)));
  return withChunkManifests(directory(at("h")), { allow: allow.map((name) => url(name)), files: readFile });
}

let links = 0;
async function linkTo(target, ...directories) {
  const name = `link${links++}`;
  await symlink(target, at(...(directories.length > 0 ? directories : ["h"]), name));
  return name;
}

const refused = (phase) => ({ code: "location_not_allowed", phase });
const chunk = (store) => store.getChunk("a", [0]);

test("links are followed within the hierarchy and into authorised prefixes, wherever they stand", async () => {
  for (const target of ["in.bin", at("h/in.bin"), at("allowed/f.bin"), "../allowed/f.bin", "sub/../in.bin"]) {
    assert.deepEqual(await chunk(await storeOf({ path: `../${await linkTo(target)}` })), VALUE);
  }
  for (const target of ["f.bin", at("h/in.bin"), "../h/in.bin"]) {
    assert.deepEqual(await chunk(await storeOf({ path: url("allowed", await linkTo(target, "allowed")) })), VALUE);
  }
  const through = await linkTo(at("allowed"));
  assert.deepEqual(await chunk(await storeOf({ path: `../${through}/f.bin` })), VALUE);
});

test("a link out is refused, the same whether its target exists or not", async () => {
  const messages = new Set();
  for (const target of [
    at("other/f.bin"), at("other/gone.bin"), at("other/gone/gone.bin"), "../other/f.bin", "../gone", at("gone/../other/f.bin"),
    at("other/f.bin/below"),
  ]) {
    for (const [path, place] of [["../", ["h"]], [`${url("allowed")}/`, ["allowed"]]]) {
      const store = await storeOf({ path: path + (await linkTo(target, ...place)) });
      await assert.rejects(chunk(store), (error) => {
        messages.add(error.detail);
        return error.code === "location_not_allowed" && error.phase === "chunk";
      });
    }
  }
  assert.equal(messages.size, 1);
});

test("a dangling link within what may be read is absent", async () => {
  for (const target of ["gone.bin", at("h/gone/gone.bin"), at("allowed/gone.bin"), "in.bin/below"]) {
    const store = await storeOf({ path: `../${await linkTo(target)}` });
    await assert.rejects(chunk(store), { code: "source_not_found", phase: "chunk" });
  }
});

test("links of documents, of metadata and of native chunks are refused in their own phase", async () => {
  const out = at("other/f.bin");
  const document = await storeOf({}, { manifest: `../${await linkTo(out)}` });
  await assert.rejects(chunk(document), refused("manifest"));
  for (const target of [out, at("gone")]) {
    await symlink(target, at("h/sub/zarr.json"));
    const store = withChunkManifests(directory(at("h")));
    await assert.rejects(store.get("/sub/zarr.json"), refused("declaration"));
    await rm(at("h/sub/zarr.json"));
  }
  await writeFile(at("h/a/zarr.json"), JSON.stringify(arrayMetadata()));
  await symlink(out, at("h/a/c/0"));
  await assert.rejects(withChunkManifests(directory(at("h"))).get("/a/c/0"), refused("chunk"));
  await rm(at("h/a/c/0"));
});

test("too many links are an error of the source", async () => {
  await symlink("loop", at("h/loop"));
  await assert.rejects(chunk(await storeOf({ path: "../loop" })), { code: "source_error" });
});

test("a directory or a pipe in the place of a file is an error, and nobody waits for it", async () => {
  execFileSync("mkfifo", [at("h/pipe")]);
  for (const path of ["../sub", "../pipe"]) {
    await assert.rejects(chunk(await storeOf({ path })), { code: "source_error", phase: "chunk" });
    await assert.rejects(chunk(await storeOf({}, { manifest: path })), { code: "source_error", phase: "manifest" });
  }
});

test("what is not there", async () => {
  for (const path of ["../gone", "../in.bin/below", "../gone/gone"]) {
    await assert.rejects(chunk(await storeOf({ path })), { code: "source_not_found", phase: "chunk" });
    await assert.rejects(chunk(await storeOf({}, { manifest: path })), { code: "manifest_not_found", phase: "manifest" });
  }
});

test("a hierarchy and prefixes that are links themselves", async () => {
  await symlink(at("h"), at("linked"));
  await symlink(at("allowed"), at("linked-prefix"));
  await storeOf({ path: "../in.bin" });
  assert.deepEqual(await chunk(withChunkManifests(directory(at("linked")))), VALUE);
  const store = await storeOf({ path: url("linked-prefix", "f.bin") }, { allow: ["linked-prefix"] });
  assert.deepEqual(await chunk(store), VALUE);
  assert.deepEqual(await findNodes(at("h")), ["", "a"]);
});

test("the real place of a path does not depend on what exists", async () => {
  await symlink(at("gone/x"), at("h/dangling"));
  await symlink("../h", at("h/up"));
  await symlink("up/../other/gone", at("h/around"));
  for (const [path, place] of [
    ["h/in.bin", "h/in.bin"],
    ["h/up/up/in.bin", "h/in.bin"],
    ["h/around/z", "other/gone/z"],
    ["h/dangling/y", "gone/x/y"],
    ["nothing/z", "nothing/z"],
  ]) {
    const real = await realPlace(root);
    assert.equal(await realPlace(at(path)), join(real, place), path);
  }
});
