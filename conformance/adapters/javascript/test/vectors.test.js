/** The vectors of paths and hosts of the conformance suite, which say how references resolve. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Allowed } from "../src/allowed.js";
import { nodeLocation, parsePrefix, resolveBase, resolveObject, resolveOverride } from "../src/locations.js";

const { hierarchy, vectors } = JSON.parse(readFileSync(new URL("../../../vectors.json", import.meta.url), "utf-8"));

const root = parsePrefix(hierarchy);

function resolve({ array, base = "./", override, path, allow }) {
  let phase = "declaration";
  try {
    const declared = resolveBase(base, nodeLocation(array, root));
    const used = override === undefined ? declared : resolveOverride(override, root);
    phase = "manifest";
    const location = resolveObject(path, used);
    if (location.scheme !== null) new Allowed(allow).check([location], () => true);
    return { location };
  } catch (error) {
    if (error.code === undefined) throw error;
    return { phase, code: error.code };
  }
}

for (const vector of vectors) {
  test(vector.id, () => {
    const { phase, code, location } = resolve(vector);
    if (vector.errors) {
      assert.equal(phase, vector.phase);
      assert.ok(vector.errors.includes(code), code);
      return;
    }
    assert.equal(code, undefined);
    if (vector.allowed) return;
    const { scheme, authority, segments } = location;
    const found = segments.join("/");
    assert.deepEqual(scheme === null ? { key: found } : { scheme, authority, path: found }, vector.location);
  });
}
