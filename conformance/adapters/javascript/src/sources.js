/**
 * Reads objects at locations: keys through the hierarchy's store, URLs through the access that
 * their authorised prefix has. Nothing else in this library reads anything.
 */

import { Allowed } from "./allowed.js";
import { checkConditions, requestHeaders } from "./conditions.js";
import { locating, ManifestError } from "./errors.js";
import { readHttp } from "./http.js";
import { display, parseAbsolute, parsePrefix } from "./locations.js";
import { redact } from "./redaction.js";

/**
 * @typedef {import("./locations.js").Location} Location
 * @typedef {import("./ranges.js").Range} Range
 * @typedef {import("./ranges.js").Answer} Answer
 * @typedef {import("./http.js").State} State
 */

/**
 * How an object is to be read.
 * @typedef {object} ReadOptions
 * @property {import("./conditions.js").Conditions | null} [conditions]
 * @property {(state: State) => void} [inspect] called with what is known of the object's state
 * @property {number} [limit] of bytes
 * @property {boolean} [pastCaches] whether no cache may answer
 * @property {AbortSignal} [signal]
 */

/**
 * Where what is read may really lie.
 * @typedef {object} Reach
 * @property {(url: string) => import("./http.js").TargetAccess} [redirect] the access to a redirect's
 *   target; raises unless it may lead there
 * @property {string[]} [roots] absolute paths of directories and files that links may lead below
 */

/**
 * Reads objects of a hierarchy's store by key, or local files by absolute path. What does not
 * exist is `source_not_found`.
 * @typedef {(path: string, range: Range, options: ReadOptions & Reach) => Promise<Answer & State>} ReadObject
 */

/** Reads the objects of a hierarchy, and what its manifests refer to. */
export class Sources {
  #allowed;
  #hierarchy;
  #fetch;
  #files;
  /** @type {Reach} */
  #reach;

  /**
   * @param {object} parts
   * @param {(string | import("./allowed.js").Access)[]} parts.allow
   * @param {import("./hierarchies.js").Hierarchy} parts.hierarchy
   * @param {typeof globalThis.fetch} [parts.fetch]
   * @param {ReadObject} [parts.files]
   */
  constructor({ allow, hierarchy, fetch, files }) {
    this.#allowed = new Allowed(allow, hierarchy.home);
    this.#hierarchy = hierarchy;
    /** @type {Location | null} the URL of the hierarchy, if it has one */
    this.root = hierarchy.home && parsePrefix(hierarchy.home.prefix);
    this.#fetch = fetch;
    this.#files = files;
    this.#reach = { redirect: (url) => this.#redirect(url), roots: this.#allowed.roots };
  }

  /**
   * Refuse locations that are not authorised, all at once.
   * @param {Iterable<Location>} locations
   */
  authorise(locations) {
    const absolute = [...locations].filter(({ scheme }) => scheme !== null);
    this.#allowed.check(absolute, ({ scheme }) =>
      scheme === "file" ? this.#files !== undefined : Object.hasOwn(ENDPOINTS, scheme),
    );
  }

  /**
   * Read an object of the hierarchy.
   * @param {string} key
   * @param {Range} range
   * @param {ReadOptions & {phase: import("./errors.js").Phase}} options `phase`: of what is read
   * @returns {Promise<Answer & State>}
   */
  async readKey(key, range, { phase, ...options }) {
    return locating({ phase, location: key }, () =>
      this.#hierarchy.read(key, range, { ...options, ...this.#reach }),
    );
  }

  /**
   * Read an object whose location is authorised, if its state is as the conditions say.
   * @param {Location} location
   * @param {Range} range
   * @param {ReadOptions & {phase: import("./errors.js").Phase}} options `phase`: of what is read
   * @returns {Promise<Answer & State>}
   */
  async read(location, range, { phase, ...options }) {
    const { conditions = null } = options;
    const inspect = (state) =>
      checkConditions(conditions, hasVersions(location) ? state : { ...state, version: null });
    return locating({ phase, location: display(location) }, () =>
      this.#readAt(location, range, { ...options, ...this.#reach, conditions, inspect }),
    );
  }

  async #readAt(location, range, options) {
    if (location.scheme === null) {
      return this.#hierarchy.read(location.segments.join("/"), range, options);
    }
    if (location.scheme === "file") {
      return this.#files(`/${location.segments.join("/")}`, range, options);
    }
    return this.#readUrl(location, range, options);
  }

  async #readUrl(location, range, { conditions, ...options }) {
    const access = this.#allowed.find(location);
    try {
      return await readHttp({
        ...options,
        url: urlOf(location, access, conditions),
        range,
        headers: access.headers,
        fetch: access.fetch ?? this.#fetch,
        conditionHeaders: requestHeaders(conditions),
      });
    } catch (error) {
      // Where versions exist, one that is gone answers like an object that is.
      const gone = error instanceof ManifestError && error.code === "source_not_found";
      if (!gone || conditions?.version === undefined || !hasVersions(location)) throw error;
      throw new ManifestError("source_changed", "the stated version does not exist", { cause: error });
    }
  }

  /** The access to a redirect's target, which has nothing of the access that led there. */
  #redirect(url) {
    const location = targetLocation(url);
    const access = location === null ? null : this.#allowed.findTarget(location);
    if (access === null) {
      throw new ManifestError(
        "location_not_allowed",
        `redirected to ${redact(url)}, which is not authorised`,
      );
    }
    return { headers: access.headers, fetch: access.fetch ?? this.#fetch };
  }
}

/**
 * The location that a redirect leads to; null for one that nothing can authorise.
 * @param {string} url as the platform's URL parser writes it
 * @returns {Location | null}
 */
function targetLocation(url) {
  if (!/^https?:/.test(url)) return null;
  try {
    return parseAbsolute(url.replace(/[?#].*$/s, ""));
  } catch (error) {
    if (error instanceof ManifestError) return null;
    throw error;
  }
}

/** Whether an object may have several versions that can be asked for. */
function hasVersions({ scheme }) {
  return scheme === "s3";
}

/** @type {Record<string, (region?: string) => string>} */
const ENDPOINTS = {
  http: () => "",
  https: () => "",
  s3: (region = "us-east-1") => `https://s3.${region}.amazonaws.com`,
  gs: () => "https://storage.googleapis.com",
  gcs: () => "https://storage.googleapis.com",
};

function urlOf({ scheme, authority, segments, query }, { endpoint, region }, conditions) {
  if (scheme === "http" || scheme === "https") {
    return `${scheme}://${authority}/${segments.map(encodeSegment).join("/")}${query}`;
  }
  const origin = (endpoint ?? ENDPOINTS[scheme](region)).replace(/\/$/, "");
  const key = [authority, ...segments].map(encodeURIComponent).join("/");
  const version = hasVersions({ scheme }) ? conditions?.version : undefined;
  return `${origin}/${key}${version === undefined ? "" : `?versionId=${encodeURIComponent(version)}`}`;
}

/**
 * A segment of a path, with what RFC 3986 allows there as it is, save `+`: S3 takes it for a space.
 * @param {string} segment
 */
export function encodeSegment(segment) {
  return encodeURIComponent(segment).replace(/%(?:24|26|2C|3A|3B|3D|40)/g, decodeURIComponent);
}
