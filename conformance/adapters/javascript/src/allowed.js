/**
 * What the reader's user authorised: URL prefixes, each with its own access. Pure.
 */

import { ManifestError } from "./errors.js";
import { display, parsePrefix } from "./locations.js";

/**
 * @typedef {import("./locations.js").Location} Location
 * @typedef {{location: Location, access: Access}} Covering a prefix in the form that is compared
 */

/**
 * An authorised prefix, and how to read below it.
 * @typedef {object} Access
 * @property {string} prefix absolute URL
 * @property {string} [endpoint] of an S3-style service; the default depends on the scheme
 * @property {string} [region]
 * @property {Record<string, string>} [headers] sent below this prefix, and nowhere else
 * @property {typeof globalThis.fetch} [fetch] used below this prefix, for example one that signs requests
 */

/** What may be read: the authorised prefixes, and the hierarchy itself. */
export class Allowed {
  /** @type {Covering[]} */
  #prefixes;
  /** @type {Covering[]} */
  #withHome;

  /**
   * @param {(string | Access)[]} prefixes
   * @param {Access | null} [home] the URL of the hierarchy
   */
  constructor(prefixes, home = null) {
    this.#prefixes = longestFirst(prefixes.map(covering));
    this.#withHome = home === null ? this.#prefixes : longestFirst([covering(home), ...this.#prefixes]);
  }

  /**
   * The access to a location that a manifest names, or null when nothing authorises it. A URL needs
   * authorisation even if it points into the hierarchy.
   * @param {Location} location
   * @returns {Access | null}
   */
  find(location) {
    return accessTo(location, this.#prefixes);
  }

  /**
   * The access to where a redirect leads, or null when it may not lead there.
   * @param {Location} location
   * @returns {Access | null}
   */
  findTarget(location) {
    return accessTo(location, this.#withHome);
  }

  /**
   * Absolute paths that files may really lie under, once links are resolved.
   * @returns {string[]}
   */
  get roots() {
    return this.#withHome
      .filter(({ location }) => location.scheme === "file")
      .map(({ location }) => `/${location.segments.join("/")}`);
  }

  /**
   * Refuse locations that are not authorised, all at once.
   * @param {Iterable<Location>} locations absolute ones
   * @param {(location: Location) => boolean} isReadable whether the reader knows the scheme
   */
  check(locations, isReadable) {
    const refused = new Set();
    for (const location of locations) {
      if (this.find(location) === null || !isReadable(location)) refused.add(directory(location));
    }
    if (refused.size === 0) return;
    throw new ManifestError(
      "location_not_allowed",
      `not authorised, or not readable here: ${JSON.stringify([...refused].sort())}`,
    );
  }
}

/** @param {string | Access} prefix @returns {Covering} */
function covering(prefix) {
  const access = typeof prefix === "string" ? { prefix } : prefix;
  return { location: parsePrefix(access.prefix), access };
}

/** Of several that cover a location, the longest counts. */
function longestFirst(prefixes) {
  return prefixes.sort((a, b) => b.location.segments.length - a.location.segments.length);
}

function accessTo(location, prefixes) {
  return prefixes.find((one) => covers(one.location, location))?.access ?? null;
}

function covers(prefix, location) {
  return (
    prefix.scheme === location.scheme &&
    prefix.authority === location.authority &&
    prefix.segments.every((segment, i) => segment === location.segments[i])
  );
}

function directory(location) {
  return display({ ...location, segments: [...location.segments.slice(0, -1), ""] });
}
