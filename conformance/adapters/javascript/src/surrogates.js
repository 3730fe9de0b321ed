/** Escaped lone surrogates in JSON text: no character, and no valid text of any encoding. Pure. */

const HIGH = /^[dD][89abAB]/;
const LOW = /^[dD][c-fC-F]/;

/**
 * Whether a string of a JSON text holds an escaped surrogate without its other half.
 * @param {string} json valid JSON without literal lone surrogates
 */
export function hasLoneSurrogate(json) {
  if (!/\\u[dD][89a-fA-F]/.test(json)) return false;
  let expected = -1; // where the low half of a pair must stand
  // Backslashes are in strings only, and every one begins an escape.
  for (const { index, 0: escape, 1: digits = "" } of json.matchAll(/\\(?:u([0-9a-fA-F]{4})|[^u])/g)) {
    const completes = index === expected && LOW.test(digits);
    if (expected !== -1 && !completes) return true;
    if (LOW.test(digits) && !completes) return true;
    expected = HIGH.test(digits) ? index + escape.length : -1;
  }
  return expected !== -1;
}
