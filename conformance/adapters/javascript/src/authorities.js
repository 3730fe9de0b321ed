/**
 * The part of a URL between its scheme and its path: which ones are usable, and the one spelling in
 * which they are compared. Pure.
 *
 * Stricter than URL parsers, so that no two of them can disagree on the host that is asked.
 */

/** The schemes of locations. */
export const SCHEMES = ["s3", "gs", "gcs", "az", "azure", "abfs", "abfss", "http", "https", "file"];

const DEFAULT_PORTS = { http: 80, https: 443 };
const BUCKET = /^[A-Za-z0-9_$][A-Za-z0-9._$-]*$/;
const HOST = /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*)(?::([0-9]{0,5}))?$/;
// URL parsers take hosts that end like this for IPv4 addresses: 127.1, 0x7f.1, 2130706433.
const NUMERIC = /(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)\.?$/i;
const DOTTED_QUAD = /^(?:(?:0|[1-9][0-9]{0,2})(?:\.(?!$)|$)){4}$/;

/** @typedef {{authority: string} | {wrong: string}} Checked the normalised authority, or what is wrong */

/**
 * Check the authority of an absolute URL.
 * @param {string} scheme in lower case, one of `SCHEMES`
 * @param {string} authority
 * @returns {Checked}
 */
export function checkAuthority(scheme, authority) {
  if (scheme === "file") {
    const local = authority === "" || authority.toLowerCase() === "localhost";
    return local ? { authority: "" } : { wrong: "a file URL that names a host" };
  }
  if (authority === "") return { wrong: "a URL without a host or bucket" };
  const [host, ...users] = authority.split("@").reverse();
  const container = scheme.startsWith("abfs") && users.length === 1;
  if (users.length > 0 && !container) return { wrong: "a URL with user information" };
  if (Object.hasOwn(DEFAULT_PORTS, scheme)) return checkHost(scheme, authority);
  const usable = [host, ...users].every((name) => BUCKET.test(name));
  return usable ? { authority } : { wrong: "a URL without a usable bucket or container" };
}

function checkHost(scheme, authority) {
  const [, host, digits = ""] = HOST.exec(authority) ?? [];
  const address = host === undefined ? null : normalHost(host.toLowerCase());
  if (address === null || Number(digits) > 65535) return { wrong: "a URL without a usable host" };
  const port = digits === "" ? DEFAULT_PORTS[scheme] : Number(digits);
  return { authority: port === DEFAULT_PORTS[scheme] ? address : `${address}:${port}` };
}

/** A host as it is compared; null for one that is none. */
function normalHost(host) {
  if (host.startsWith("[")) {
    return URL.canParse(`http://${host}/`) ? new URL(`http://${host}/`).hostname : null;
  }
  return !NUMERIC.test(host) || isIPv4(host) ? host : null;
}

function isIPv4(host) {
  return DOTTED_QUAD.test(host) && host.split(".").every((number) => Number(number) <= 255);
}
