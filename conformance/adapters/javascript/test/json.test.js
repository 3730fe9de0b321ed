/** From bytes to JSON: what is refused, and that messages quote nothing of a document. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { checkNesting, decodeText, parseDocument, parseMetadata } from "../src/json.js";
import { hasLoneSurrogate } from "../src/surrogates.js";

const encode = (text) => new TextEncoder().encode(text);

test("a lone surrogate is found, wherever it stands", () => {
  const parts = ["a", "\\\\", "\\n", "\\\"", "\\u0061", "\\ud83d\\ude00", "\u{1f600}", "\\uD83D", "\\uDE00", "ud83d", "\\/"];
  for (const a of parts) {
    for (const b of parts) {
      for (const c of parts) {
        const json = `{"k": ["${a}${b}", "${c}"]}`;
        const strings = JSON.parse(json).k;
        assert.equal(hasLoneSurrogate(json), strings.some((text) => !text.isWellFormed()), json);
      }
    }
  }
});

test("a document has no lone surrogate, metadata may", () => {
  for (const text of ['{"0": {"path": "\\ud800"}}', '{"\\udc00": {}}', '{"0": {"_x": [{"y": "\\ud800"}]}}']) {
    assert.throws(() => parseDocument(text), { code: "invalid_json", phase: "manifest" });
    parseMetadata("a", encode(text));
  }
});

test("what is not JSON, UTF-8, or has a byte order mark, is refused", () => {
  for (const bytes of [encode("{"), encode("\ufeff{}"), encode(""), encode("NaN"), Uint8Array.of(0xff)]) {
    assert.throws(() => parseDocument(decodeText(bytes)), { code: "invalid_json" });
    assert.throws(() => parseMetadata("a", bytes), { code: "invalid_configuration", phase: "declaration", array: "a" });
  }
});

test("messages say where the JSON ends, and quote nothing of it", () => {
  for (const text of ['{"0": {"path": "https://h/f?SECRET"}, }', '"SECRET" 1', "SECRET", '{"a": SECRET}']) {
    assert.throws(() => parseDocument(text), ({ message, cause }) => !/SECRET/.test(message) && cause === undefined);
  }
});

test("nesting is counted outside of strings", () => {
  checkNesting(encode('{"a": [[1]], "[[[[[": "\\"[[[["}'), 3);
  assert.throws(() => checkNesting(encode("[[[[]]]]"), 3), { code: "limit_exceeded" });
});
