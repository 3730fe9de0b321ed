/** The blocks of a partitioned manifest: which ones have documents, and what their absence means. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { blockGrid, blocksToAsk, documentedBlocks, hasNoDocument, mustExist, outsideBlocks } from "../src/blocks.js";
import { gridIndices } from "../src/chunk-keys.js";

const GRID = [2, 3];
const ALL = [...gridIndices(GRID)];

test("all subsets of blocks: each block is documented, or has no document, and never both", () => {
  for (let subset = 0; subset < 2 ** ALL.length; subset++) {
    const names = ALL.filter((_, i) => subset & (1 << i)).map((block) => block.join("."));
    const documented = documentedBlocks([...names].reverse(), GRID);
    for (const block of ALL) {
      assert.equal(mustExist(documented, block), names.includes(block.join(".")));
      assert.equal(hasNoDocument(documented, block), !mustExist(documented, block));
    }
    assert.deepEqual([...blocksToAsk(documented, GRID, 6)].map((block) => block.join(".")), names);
  }
});

test("all documents exist, or nobody knows which", () => {
  for (const block of ALL) {
    assert.equal(mustExist(documentedBlocks("all", GRID), block), true);
    assert.equal(mustExist(documentedBlocks(null, GRID), block), false);
    for (const said of ["all", null]) assert.equal(hasNoDocument(documentedBlocks(said, GRID), block), false);
  }
  assert.deepEqual([...blocksToAsk("all", GRID, 6)], ALL);
  assert.deepEqual([...blocksToAsk(null, GRID, 6)], ALL);
});

test("the array of no dimensions has one block", () => {
  assert.equal(mustExist(documentedBlocks(["0"], []), []), true);
  assert.equal(hasNoDocument(documentedBlocks([], []), []), true);
  assert.deepEqual([...blocksToAsk(null, [], 1)], [[]]);
});

for (const names of [["0"], ["0.0.0"], ["00.1"], ["0.0 "], ["c/0/0"], ["0/0"], [""], ["-1.0"], ["0.1", "0.1"], ["9.9", "9.9"], ["0.9007199254740992"], ["0.1e1"]]) {
  test(`refused: ${JSON.stringify(names)}`, () => {
    assert.throws(() => documentedBlocks(names, GRID), { code: "invalid_configuration", phase: "declaration" });
  });
}

test("names outside the grid are ignored by readers, and known to validators", () => {
  const names = ["2.0", "1.2", "0.3", "0.9007199254740991"];
  const documented = documentedBlocks(names, GRID);
  assert.deepEqual([...documented.keys()], ["1.2"]);
  assert.deepEqual(outsideBlocks(names, documented).map(({ code }) => code), Array(3).fill("invalid_configuration"));
  assert.deepEqual(outsideBlocks("all", "all"), []);
  assert.deepEqual(outsideBlocks(null, null), []);
});

test("nothing is made for each of very many blocks", () => {
  const grid = blockGrid([1e9, 1e9], [1, 2]);
  assert.deepEqual(grid, [1e9, 5e8]);
  for (const said of ["all", null]) {
    assert.throws(() => blocksToAsk(said, grid, 1e6), { code: "limit_exceeded", phase: "manifest" });
  }
  assert.equal([...blocksToAsk(documentedBlocks(["5.5"], grid), grid, 1)].length, 1);
  assert.deepEqual([...blocksToAsk(null, blockGrid([0, 5], [1, 1]), 0)], []);
});
