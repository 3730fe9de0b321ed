/**
 * What messages show of a reference, valid or not: nothing that may be a password or a signature. Pure.
 */

const PLAIN_HOST = /^(?:\[[^\]]*\]|[^:@%]*)(?::[0-9]*)?$/;

/**
 * A reference without user information, query and fragment. Shows too little rather than too much:
 * what cannot be parsed may hold a password all the same.
 * @param {string} reference
 */
export function redact(reference) {
  const [, text, more] = matched(/^([^?#]*)(.*)$/s, reference);
  return withoutUser(text) + (more === "" ? "" : `${more[0]}…`);
}

function withoutUser(text) {
  const [, lead = "", rest] = matched(/^([^/\\@:]*:[/\\]*|[/\\]{2,})?(.*)$/s, text);
  if (lead === "" || /^file:/i.test(lead)) return text;
  const [, authority, path] = matched(/^([^/\\]*)(.*)$/s, rest);
  if (PLAIN_HOST.test(authority) || /^abfss?:/i.test(lead) && !/[:%]/.test(authority)) return text;
  // A slash in a password ends the authority, so that the end of the password would be in the path.
  return `${lead}…@${(authority + path).replace(/^.*(?:@|%40)/is, "")}`;
}

/**
 * Why something failed that others do, in words of theirs that quote no URL.
 * @param {any} error
 * @returns {string}
 */
export function reasonOf(error) {
  const text = String(error.cause?.code ?? error.cause?.message ?? error.message);
  return text.includes("://") ? String(error.name) : text;
}

/** The parts of a text that a pattern always matches. */
function matched(pattern, text) {
  return /** @type {RegExpExecArray} */ (pattern.exec(text));
}
