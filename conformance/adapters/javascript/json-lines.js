/** The protocol of the conformance suite: JSON Lines over standard input and output. */

import { createInterface } from "node:readline";

const PROTOCOL = 1;

/** A failure that the protocol has a code for. */
export class RefusedError extends Error {
  /**
   * @param {string} code
   * @param {string} phase
   * @param {string} message
   */
  constructor(code, phase, message) {
    super(message);
    this.code = code;
    this.phase = phase;
  }
}

/**
 * Answer requests until the input ends, one at a time.
 * @param {object} implementation
 * @param {string} implementation.name
 * @param {string} implementation.version
 * @param {string[]} implementation.features
 * @param {(request: Record<string, any>) => any} implementation.open opens the hierarchy of a request
 * @param {Record<string, (hierarchy: any, request: Record<string, any>) => Promise<object>>} implementation.operations
 */
export async function serve(implementation) {
  const session = { implementation, opened: null };
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    if (line.trim() !== "") process.stdout.write(`${JSON.stringify(await answer(session, line))}\n`);
  }
}

async function answer(session, line) {
  let id = null;
  try {
    const request = JSON.parse(line);
    id = request.id;
    return { id, ok: true, ...(await dispatch(session, request)) };
  } catch (error) {
    return { id, ok: false, error: describe(error) };
  }
}

function describe(error) {
  if (error instanceof RefusedError) {
    return { code: error.code, phase: error.phase, message: error.message };
  }
  // No case expects this code: the class and the message tell whom to ask.
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return { code: "unexpected", phase: null, message };
}

async function dispatch(session, request) {
  const { name, version, features, open, operations } = session.implementation;
  if (request.op === "hello") {
    if (request.protocol !== PROTOCOL) throw new Error(`this adapter speaks protocol ${PROTOCOL}`);
    return { name, version, protocol: PROTOCOL, features };
  }
  if (!Object.hasOwn(operations, request.op)) throw new Error(`there is no operation ${request.op}`);
  if (session.opened === null || request.reuse !== true) {
    // Forgotten first: what cannot be opened must not be continued with what was before.
    session.opened = null;
    session.opened = await open(request);
  }
  return operations[request.op](session.opened, request);
}
