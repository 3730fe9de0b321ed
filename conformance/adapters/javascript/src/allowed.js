/**
 * What the reader's user authorised: URL prefixes, each with its own access. Pure.
 */

import { ManifestError } from "./errors.js";
import { display, parseAbsolute } from "./locations.js";

/** @typedef {import("./locations.js").Location} Location */

/**
 * An authorised prefix, and how to read below it.
 * @typedef {object} Access
 * @property {string} prefix absolute URL
 * @property {string} [endpoint] of an S3-style service; the default depends on the scheme
 * @property {string} [region]
 * @property {Record<string, string>} [headers] sent below this prefix, and nowhere else
 * @property {typeof globalThis.fetch} [fetch] used below this prefix, for example one that signs requests
 */

/** Authorised prefixes. */
export class Allowed {
  /** @type {{location: Location, access: Access}[]} */
  #prefixes;

  /** @param {(string | Access)[]} prefixes */
  constructor(prefixes) {
    this.#prefixes = prefixes.map((one) => {
      const access = typeof one === "string" ? { prefix: one } : one;
      return { location: withoutSlash(parseAbsolute(access.prefix)), access };
    });
    // Of several that cover a location, the longest counts.
    this.#prefixes.sort((a, b) => b.location.segments.length - a.location.segments.length);
  }

  /**
   * The access to a location, or null when nothing authorises it.
   * @param {Location} location
   * @returns {Access | null}
   */
  find(location) {
    return this.#prefixes.find((one) => covers(one.location, location))?.access ?? null;
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

function directory(location) {
  return display({ ...location, segments: [...location.segments.slice(0, -1), ""] });
}

function withoutSlash(location) {
  const { segments } = location;
  return segments.at(-1) === "" ? { ...location, segments: segments.slice(0, -1) } : location;
}

function covers(prefix, location) {
  return (
    prefix.scheme === location.scheme &&
    prefix.authority === location.authority &&
    prefix.segments.every((segment, i) => segment === location.segments[i])
  );
}
