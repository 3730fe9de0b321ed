/**
 * The one class of errors that this reader raises, with the codes of the specification.
 *
 * zarrita takes `undefined` for a missing chunk and only its own errors for "try another format",
 * so a ManifestError always reaches whoever asked for values.
 */

/** @typedef {"declaration" | "manifest" | "chunk"} Phase */

/**
 * In which phase an error arises, unless whoever raises it says otherwise.
 * @type {Record<string, Phase>}
 */
const PHASES = {
  invalid_configuration: "declaration",
  unsupported_transformer: "declaration",
  invalid_path: "manifest",
  manifest_not_found: "manifest",
  invalid_json: "manifest",
  invalid_manifest: "manifest",
  invalid_entry: "manifest",
  invalid_chunk_key: "manifest",
  unsupported_checksum: "manifest",
  limit_exceeded: "manifest",
  location_not_allowed: "manifest",
};

/** An array cannot be opened or read as its chunk manifest says. */
export class ManifestError extends Error {
  /**
   * @param {string} code an error code of the specification, or `missing_chunk`
   * @param {string} detail what is wrong, and what helps
   * @param {{phase?: Phase, array?: string, chunk?: string, location?: string, cause?: unknown}} [where]
   *   `location` must come without credentials and query
   */
  constructor(code, detail, where = {}) {
    super(detail, where.cause === undefined ? undefined : { cause: where.cause });
    this.name = "ManifestError";
    this.code = code;
    this.detail = detail;
    this.phase = where.phase ?? PHASES[code] ?? "chunk";
    this.array = where.array;
    this.chunk = where.chunk;
    this.location = where.location;
    this.message = this.#compose();
  }

  /**
   * Say where the error arose, as far as it is not known yet; `phase` is replaced.
   * @param {{phase?: Phase, array?: string, chunk?: string, location?: string}} where
   * @returns {this}
   */
  at(where) {
    this.phase = where.phase ?? this.phase;
    this.array ??= where.array;
    this.chunk ??= where.chunk;
    this.location ??= where.location;
    this.message = this.#compose();
    return this;
  }

  #compose() {
    const places = [
      this.array !== undefined && `array ${JSON.stringify(this.array)}`,
      this.chunk !== undefined && `chunk ${JSON.stringify(this.chunk)}`,
      this.location !== undefined && this.location,
    ].filter(Boolean);
    return `${this.code}: ${this.detail}${places.length > 0 ? ` (${places.join(", ")})` : ""}`;
  }
}

/**
 * Run `action`; a ManifestError that leaves it learns where it arose.
 * @template T
 * @param {{phase?: Phase, array?: string, chunk?: string, location?: string}} where
 * @param {() => T} action
 * @returns {T}
 */
export function locating(where, action) {
  const located = (error) => {
    throw error instanceof ManifestError ? error.at(where) : error;
  };
  try {
    const result = action();
    return result instanceof Promise ? /** @type {any} */ (result.catch(located)) : result;
  } catch (error) {
    return located(error);
  }
}
