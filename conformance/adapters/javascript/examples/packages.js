/**
 * Where packages lie, for pages without a bundler: an import map, made by a script that stands
 * before all modules. Everything is below node_modules/, as `npm install` puts it there.
 */

{
  const imports = {
    "chunk-manifest-json": "chunk-manifest-json/src/index.js",
    zarrita: "zarrita/dist/src/index.js",
    "@zarrita/storage/fetch": "@zarrita/storage/dist/src/fetch.js",
    "numcodecs/blosc": "numcodecs/dist/blosc.js",
    "numcodecs/lz4": "numcodecs/dist/lz4.js",
    "numcodecs/zstd": "numcodecs/dist/zstd.js",
    "@noble/hashes/": "@noble/hashes/",
    fzstd: "fzstd/esm/index.mjs",
    pako: "pako/dist/pako.mjs",
    "xxhash-wasm": "xxhash-wasm/esm/xxhash-wasm.js",
  };
  const map = document.createElement("script");
  map.type = "importmap";
  map.textContent = JSON.stringify({
    imports: Object.fromEntries(
      Object.entries(imports).map(([name, path]) => [name, `./node_modules/${path}`]),
    ),
  });
  document.currentScript.after(map);
}
