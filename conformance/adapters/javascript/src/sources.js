/**
 * Reads objects at locations: keys through the hierarchy's store, URLs through the access that
 * their authorised prefix has. Nothing else in this library reads anything.
 */

import { conditionHeaders, checkConditions } from "./conditions.js";
import { locating, ManifestError } from "./errors.js";
import { readHttp } from "./http.js";
import { display, parseAbsolute, parsePrefix } from "./locations.js";

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
 * @property {AbortSignal} [signal]
 */

/**
 * Reads objects of a hierarchy's store by key, or local files by absolute path. What does not
 * exist is `source_not_found`.
 * @typedef {(path: string, range: Range, options: ReadOptions & {below?: string}) => Promise<Answer & State>} ReadObject
 */

/** Reads what a manifest refers to. */
export class Sources {
  #allowed;
  #hierarchy;
  #fetch;
  #files;

  /**
   * @param {object} parts
   * @param {import("./allowed.js").Allowed} parts.allowed
   * @param {ReadObject} parts.hierarchy
   * @param {typeof globalThis.fetch} [parts.fetch]
   * @param {ReadObject} [parts.files]
   */
  constructor({ allowed, hierarchy, fetch, files }) {
    this.#allowed = allowed;
    this.#hierarchy = hierarchy;
    this.#fetch = fetch;
    this.#files = files;
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
   * Read an object whose location is authorised, if its state is as the conditions say.
   * @param {Location} location
   * @param {Range} range
   * @param {ReadOptions} options
   * @returns {Promise<Answer & State>}
   */
  async read(location, range, options) {
    const { conditions = null } = options;
    const inspect = (state) => checkConditions(conditions, state);
    return locating({ location: display(location) }, () =>
      this.#readAt(location, range, { ...options, conditions, inspect }),
    );
  }

  async #readAt(location, range, options) {
    if (location.scheme === null) {
      return this.#hierarchy(location.segments.join("/"), range, options);
    }
    const access = this.#allowed.find(location);
    if (location.scheme === "file") {
      const below = `/${parsePrefix(access.prefix).segments.join("/")}`;
      return this.#files(`/${location.segments.join("/")}`, range, { ...options, below });
    }
    return this.#readUrl(location, range, access, options);
  }

  async #readUrl(location, range, access, options) {
    const request = {
      url: urlOf(location, access, options.conditions),
      range,
      headers: { ...access.headers, ...headersFor(options.conditions) },
      fetch: access.fetch ?? this.#fetch,
      limit: options.limit,
      signal: options.signal,
      inspect: options.inspect,
      redirect: (url) => this.#redirect(url, options.conditions),
    };
    try {
      return await readHttp(request);
    } catch (error) {
      // Where versions exist, one that is gone answers like an object that is.
      const gone = error instanceof ManifestError && error.code === "source_not_found";
      if (!gone || options.conditions?.version === undefined) throw error;
      throw new ManifestError("source_changed", "the stated version does not exist", { cause: error });
    }
  }

  /** The access to a redirect's target, which has nothing of the access that led there. */
  #redirect(url, conditions) {
    const access = findRedirectAccess(url, this.#allowed);
    return {
      headers: { ...access.headers, ...headersFor(conditions) },
      fetch: access.fetch ?? this.#fetch,
    };
  }
}

/**
 * @param {string} url target of a redirect
 * @param {import("./allowed.js").Allowed} allowed
 * @returns {import("./allowed.js").Access}
 */
export function findRedirectAccess(url, allowed) {
  const shown = url.replace(/[?#].*$/s, "");
  const refused = new ManifestError(
    "location_not_allowed",
    `redirected to ${shown.replace(/\/\/[^/]*@/, "//")}, which is not authorised`,
    { phase: "chunk" },
  );
  if (!/^https?:/.test(url)) throw refused;
  let location;
  try {
    location = parseAbsolute(shown);
  } catch (error) {
    if (error instanceof ManifestError) throw refused;
    throw error;
  }
  const access = allowed.find(location);
  if (access === null) throw refused;
  return access;
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
  const version = scheme === "s3" ? conditions?.version : undefined;
  return `${origin}/${key}${version === undefined ? "" : `?versionId=${encodeURIComponent(version)}`}`;
}

/**
 * A segment of a path, with what RFC 3986 allows there as it is.
 * @param {string} segment
 */
export function encodeSegment(segment) {
  return encodeURIComponent(segment).replace(/%(?:24|26|2B|2C|3A|3B|3D|40)/g, decodeURIComponent);
}

/**
 * Request headers ask servers of the same origin only, and any server where there are no origins:
 * from elsewhere a browser would first ask whether it may send them, which static servers refuse.
 * What the answer says is compared in any case.
 */
function headersFor(conditions) {
  return globalThis.document === undefined ? conditionHeaders(conditions) : {};
}
