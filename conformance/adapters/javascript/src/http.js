/**
 * Objects on HTTP servers, with `fetch`: ranges, redirects, retries, and whether all bytes arrived.
 *
 * The checks of an answer are made here; what an answer means for an entry is decided elsewhere.
 */

import { ManifestError } from "./errors.js";
import { readBody } from "./http-body.js";
import { readExtent } from "./http-extent.js";
import { reasonOf } from "./redaction.js";

/**
 * What an answer says of the object's state; null for what it does not say.
 * @typedef {{etag: string | null, lastModified: string | null, version: string | null, size: number | null}} State
 */

/**
 * How the target of a redirect is read.
 * @typedef {{headers?: Record<string, string>, fetch?: typeof globalThis.fetch}} TargetAccess
 */

/**
 * @typedef {object} HttpRequest
 * @property {string} url
 * @property {import("./ranges.js").Range} range
 * @property {Record<string, string>} [headers] sent to this URL, and to no target of a redirect
 * @property {Record<string, string>} [conditionHeaders] of the entry; sent on
 * @property {typeof globalThis.fetch} [fetch]
 * @property {number} [limit] of bytes
 * @property {boolean} [pastCaches] whether no cache may answer
 * @property {AbortSignal} [signal]
 * @property {(state: State) => void} [inspect] called before the body is read; raises what is wrong
 * @property {(url: string) => TargetAccess} [redirect] the access to a redirect's target; raises unless
 *   it may lead there, and without it none may
 */

const ATTEMPTS = 3;
const PAUSE_MILLISECONDS = 100;
const MAX_REDIRECTS = 5;
const REDIRECTIONS = [301, 302, 303, 307, 308];
const TRANSIENT = [408, 429, 500, 502, 503, 504];

/** A failure that another attempt may not have. */
class TransientError extends Error {}

/**
 * Read an object, or a range of it.
 * @param {HttpRequest} request
 * @returns {Promise<import("./ranges.js").Answer & State>}
 */
export async function readHttp(request) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await readOnce(request);
    } catch (error) {
      if (!(error instanceof TransientError)) throw error;
      if (attempt === ATTEMPTS) throw error.cause;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MILLISECONDS * attempt));
    }
  }
}

async function readOnce(request) {
  const response = await answer(request);
  const state = readState(response);
  let extent;
  try {
    checkStatus(response, request.range);
    if (response.status === 416) return { ...state, ...beyondTheEnd(response) };
    request.inspect?.(state);
    extent = readExtent(response, request.range);
  } finally {
    if (extent === undefined) await response.body?.cancel();
  }
  const bytes = await transient(() => readBody(response, extent, request.limit));
  return { ...state, bytes, start: extent.start, size: extent.size ?? sizeOf(extent, bytes) };
}

/**
 * What the server answers; without conditions if it says that they do not hold. It may compare more
 * strictly than an entry wants it (weak entity tags), so what the answer says is compared instead.
 */
async function answer(request) {
  const { conditionHeaders = {} } = request;
  const response = await follow({ ...request, conditionHeaders });
  if (response.status !== 412 || Object.keys(conditionHeaders).length === 0) return response;
  await response.body?.cancel();
  return follow({ ...request, conditionHeaders: {} });
}

const sizeOf = (extent, bytes) => (extent.partial ? null : bytes.length);

/** Send the request, and follow redirects to where the reader may go. */
async function follow({ url, range, headers, conditionHeaders, fetch, signal, redirect, pastCaches = false }) {
  let access = { headers, fetch };
  // Of ranges, fetch asks for identity by itself. Browsers do not let pages ask, and ignore it here.
  const asked = range === null ? { "Accept-Encoding": "identity" } : { Range: rangeHeader(range) };
  const always = { ...conditionHeaders, ...asked };
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const response = await send(url, always, access, { signal, pastCaches });
    if (response.type === "opaqueredirect") {
      throw new ManifestError(
        "location_not_allowed",
        "the server redirects, and a browser does not say where to: name the target itself",
      );
    }
    if (!REDIRECTIONS.includes(response.status)) return response;
    await response.body?.cancel();
    const target = response.headers.get("location");
    if (target === null || !URL.canParse(target, url)) {
      throw new ManifestError("source_error", `status ${response.status} without a usable Location`);
    }
    url = new URL(target, url).href;
    if (redirect === undefined) throw new ManifestError("location_not_allowed", "the server redirects");
    access = redirect(url);
  }
  throw new ManifestError("source_error", `more than ${MAX_REDIRECTS} redirects`);
}

async function send(url, always, { headers = {}, fetch = globalThis.fetch }, { signal, pastCaches }) {
  /** @type {RequestInit} */
  const init = {
    headers: { ...headers, ...always },
    redirect: "manual",
    // Cookies and the like belong to the browser's user, who authorised none of them.
    credentials: "omit",
    referrerPolicy: "no-referrer",
    // Sends `Cache-Control: no-cache`, without asking a server of another origin for permission.
    ...(pastCaches ? { cache: "reload" } : {}),
    signal,
  };
  try {
    return await fetch(url, init);
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof ManifestError) throw error;
    throw retry(new ManifestError("source_error", `no answer: ${reasonOf(error)}`, { cause: error }));
  }
}

function rangeHeader(range) {
  if ("last" in range) return `bytes=-${range.last}`;
  return `bytes=${range.start}-${"end" in range ? range.end - 1 : ""}`;
}

function retry(error) {
  return new TransientError(error.message, { cause: error });
}

async function transient(action) {
  try {
    return await action();
  } catch (error) {
    const again = error instanceof ManifestError && error.code === "short_read";
    throw again ? retry(error) : error;
  }
}

function checkStatus({ status }, range) {
  if (status === 200 || status === 206 || (status === 416 && range !== null)) return;
  if (status === 404 || status === 410) throw new ManifestError("source_not_found", `status ${status}`);
  if (status === 401 || status === 403) {
    throw new ManifestError("source_access_denied", `status ${status}`);
  }
  const error = new ManifestError("source_error", `status ${status}`);
  throw TRANSIENT.includes(status) ? retry(error) : error;
}

/** @returns {State} */
function readState({ status, headers }) {
  const whole = status === 200 && (headers.get("content-encoding") ?? "identity") === "identity";
  const size = whole ? headers.get("content-length") : headers.get("content-range")?.split("/")[1];
  return {
    etag: headers.get("etag"),
    lastModified: headers.get("last-modified"),
    version: headers.get("x-amz-version-id"),
    size: /^\d+$/.test(size ?? "") ? Number(size) : null,
  };
}

function beyondTheEnd({ headers }) {
  const match = /^bytes \*\/(\d+)$/.exec(headers.get("content-range") ?? "");
  if (!match) throw new ManifestError("range_out_of_bounds", "the server says that nothing is there");
  const size = Number(match[1]);
  return { bytes: new Uint8Array(0), start: size, size };
}
