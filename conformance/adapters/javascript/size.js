/**
 * Prints how large the package is: `npm run --silent size`. README.md states the same.
 */

import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

const DIRECTORY = fileURLToPath(new URL(".", import.meta.url));

/** Bytes of the tarball that `npm install` downloads. */
function packedSize() {
  const output = execFileSync("npm", ["pack", "--dry-run", "--json"], {
    cwd: DIRECTORY,
    encoding: "utf-8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  // A script of the package may print before.
  return Object.values(JSON.parse(output.slice(output.search(/^[[{]/m))))[0].size;
}

/** Bytes that a browser loads, minified and compressed, besides zarrita. */
async function loadedSize() {
  const { outputFiles } = await build({
    entryPoints: [`${DIRECTORY}/src/index.js`],
    bundle: true,
    minify: true,
    format: "esm",
    external: ["zarrita"],
    write: false,
  });
  return gzipSync(outputFiles[0].contents, { level: 9 }).length;
}

const kilobytes = (bytes) => `${Math.round(bytes / 1000)} kB`;

console.log(`${kilobytes(packedSize())} packed`);
console.log(`${kilobytes(await loadedSize())} in a page, minified and gzipped, without zarrita`);
