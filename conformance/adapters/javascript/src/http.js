/**
 * Objects on HTTP servers, with `fetch`: ranges, redirects, retries, and whether all bytes arrived.
 *
 * The checks of an answer are made here; what an answer means for an entry is decided elsewhere.
 */

import { ManifestError } from "./errors.js";
import { readBody } from "./http-body.js";

/**
 * What an answer says of the object's state; null for what it does not say.
 * @typedef {{etag: string | null, lastModified: string | null, version: string | null}} State
 */

/**
 * @typedef {object} HttpRequest
 * @property {string} url
 * @property {import("./ranges.js").Range} range
 * @property {Record<string, string>} [headers]
 * @property {typeof globalThis.fetch} [fetch]
 * @property {number} [limit] of bytes
 * @property {AbortSignal} [signal]
 * @property {(state: State) => void} [inspect] called before the body is read; raises what is wrong
 * @property {(url: string) => {headers?: Record<string, string>, fetch?: typeof globalThis.fetch}} redirect
 *   the access to a redirect's target; raises unless it is authorised
 */

const ATTEMPTS = 3;
const PAUSE_MILLISECONDS = 100;
const MAX_REDIRECTS = 5;
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
  const response = await follow(request);
  checkStatus(response);
  const state = readState(response);
  if (response.status === 416) {
    await response.body?.cancel();
    return beyondTheEnd(response, state);
  }
  request.inspect?.(state);
  const extent = readExtent(response, request.range);
  const bytes = await transient(() => readBody(response, extent, request.limit));
  return { ...state, bytes, start: extent.start, size: extent.size ?? sizeOf(extent, bytes) };
}

const sizeOf = (extent, bytes) => (extent.partial ? null : bytes.length);

/** Send the request, and follow redirects to where the reader may go. */
async function follow({ url, range, headers, fetch, signal, redirect }) {
  let access = { headers, fetch };
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const response = await send(url, range, access, signal);
    if (response.type === "opaqueredirect") {
      throw new ManifestError(
        "location_not_allowed",
        "the server redirects, and a browser does not say where to: name the target itself",
        { phase: "chunk" },
      );
    }
    if (response.status < 300 || response.status >= 400) return response;
    await response.body?.cancel();
    const target = response.headers.get("location");
    if (target === null || !URL.canParse(target, url)) {
      throw new ManifestError("source_error", `status ${response.status} without a usable Location`);
    }
    url = new URL(target, url).href;
    access = redirect(url);
  }
  throw new ManifestError("source_error", `more than ${MAX_REDIRECTS} redirects`);
}

async function send(url, range, { headers = {}, fetch = globalThis.fetch }, signal) {
  const init = {
    headers: { ...headers, ...(range === null ? {} : { Range: rangeHeader(range) }) },
    redirect: "manual",
    // Cookies and the like belong to the browser's user, who authorised none of them.
    credentials: "omit",
    referrerPolicy: "no-referrer",
    signal,
  };
  try {
    return await fetch(url, init);
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof ManifestError) throw error;
    throw retry(new ManifestError("source_error", `no answer: ${reason(error)}`, { cause: error }));
  }
}

function rangeHeader(range) {
  if ("last" in range) return `bytes=-${range.last}`;
  return `bytes=${range.start}-${"end" in range ? range.end - 1 : ""}`;
}

function reason(error) {
  return error.cause?.code ?? error.cause?.message ?? error.message;
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

function checkStatus({ status }) {
  if (status === 200 || status === 206 || status === 416) return;
  if (status === 404 || status === 410) throw new ManifestError("source_not_found", `status ${status}`);
  if (status === 401 || status === 403) {
    throw new ManifestError("source_access_denied", `status ${status}`);
  }
  if (status === 412) {
    throw new ManifestError("source_changed", "the server says that a condition does not hold");
  }
  const error = new ManifestError("source_error", `status ${status}`);
  throw TRANSIENT.includes(status) ? retry(error) : error;
}

/** @returns {State} */
function readState({ headers }) {
  return {
    etag: headers.get("etag"),
    lastModified: headers.get("last-modified"),
    version: headers.get("x-amz-version-id"),
  };
}

function beyondTheEnd({ headers }, state) {
  const match = /^bytes \*\/(\d+)$/.exec(headers.get("content-range") ?? "");
  if (!match) throw new ManifestError("range_out_of_bounds", "the server says that nothing is there");
  const size = Number(match[1]);
  return { ...state, bytes: new Uint8Array(0), start: size, size };
}

/**
 * Which bytes of the object the body holds, and how large the object is.
 * @returns {{partial: boolean, start: number, end: number | null, size: number | null}}
 */
function readExtent(response, range) {
  if (range === null) {
    if (response.status !== 200) throw wrongRange("an unasked range");
    const size = encoded(response) ? null : integer(response.headers.get("content-length"));
    return { partial: false, start: 0, end: size, size };
  }
  if (response.status !== 206) throw wrongRange("the whole object, where a range was asked for");
  if (encoded(response)) throw wrongRange("a range of an encoding of the object");
  const header = response.headers.get("content-range");
  if (header === null) return hiddenExtent(response, range);
  const match = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(header);
  if (!match) throw wrongRange(`Content-Range ${JSON.stringify(header)}`);
  const [start, last] = [Number(match[1]), Number(match[2])];
  const size = match[3] === "*" ? null : Number(match[3]);
  checkExtent(header, range, { start, end: last + 1, size });
  return { partial: true, start, end: last + 1, size };
}

/** A server of another origin may not expose Content-Range to scripts; any other must send it. */
function hiddenExtent(response, range) {
  if (response.type !== "cors" || !("end" in range)) throw wrongRange("a range without Content-Range");
  return { partial: true, start: range.start, end: range.end, size: null };
}

function checkExtent(header, range, { start, end, size }) {
  const asked =
    "last" in range
      ? size !== null && start === Math.max(0, size - range.last) && end === size
      : start === range.start && (!("end" in range) || end <= range.end);
  if (!asked || end <= start || (size !== null && end > size)) {
    throw wrongRange(`Content-Range ${JSON.stringify(header)}`);
  }
}

function wrongRange(detail) {
  return new ManifestError("source_error", `the server cannot serve ranges: it answered ${detail}`);
}

function encoded({ headers }) {
  return (headers.get("content-encoding") ?? "identity") !== "identity";
}

function integer(text) {
  return text !== null && /^\d+$/.test(text) ? Number(text) : null;
}
