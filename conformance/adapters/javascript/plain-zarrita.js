/**
 * zarrita alone, without this directory's library: what a reader does that does not know
 * `chunk-manifest-json`. Its failures are recorded in `conformance/expectations/zarrita.json`.
 *
 * Run as `node conformance/adapters/javascript/plain-zarrita.js`.
 */

import { readFileSync } from "node:fs";

import { FetchStore, Location } from "zarrita";
import FileSystemStore from "@zarrita/storage/fs";

import { serve } from "./json-lines.js";
import { openArray, readValues } from "./values.js";

const { version } = JSON.parse(
  readFileSync(new URL("node_modules/zarrita/package.json", import.meta.url), "utf-8"),
);

await serve({
  name: "zarrita",
  version,
  features: [
    "read", "hierarchy-http", "sharding", "blosc", "zstd", "gzip", "crc32c", "transpose",
    "consolidated",
  ],
  open: ({ via, hierarchy }) =>
    via === "http" ? new FetchStore(hierarchy) : new FileSystemStore(hierarchy),
  operations: {
    read: async (store, { array, selection = null }) =>
      readValues(await openArray(new Location(store, `/${array}`)), selection),
  },
});
