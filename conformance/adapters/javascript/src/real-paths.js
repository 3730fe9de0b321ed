/**
 * Where a local path really leads, in Node.js: all symbolic links resolved, whether or not what they
 * lead to exists.
 */

import { readlink, realpath } from "node:fs/promises";
import { dirname, join, parse, resolve, sep } from "node:path";

import { ManifestError } from "./errors.js";

const MOST_LINKS = 40; // as Linux follows

/**
 * The real place of a path. What does not exist, or cannot be looked at, counts as no link.
 * @param {string} path
 * @returns {Promise<string>} absolute, and without links as far as anything exists
 */
export async function realPlace(path) {
  let place = parse(resolve(path)).root;
  const ahead = namesOf(resolve(path));
  for (let links = 0; ahead.length > 0; ) {
    const name = ahead.shift();
    if (name === "..") {
      place = dirname(place);
      continue;
    }
    const target = await linkTarget(join(place, name));
    if (target === null) {
      place = join(place, name);
      continue;
    }
    if (++links > MOST_LINKS) throw new ManifestError("source_error", "too many symbolic links");
    if (parse(target).root !== "") place = parse(target).root;
    ahead.unshift(...namesOf(target));
  }
  return place;
}

function namesOf(path) {
  return path.slice(parse(path).root.length).split(sep).filter((name) => name !== "" && name !== ".");
}

async function linkTarget(path) {
  try {
    return await readlink(path);
  } catch (error) {
    if (error.code === undefined) throw error;
    return null;
  }
}

/**
 * The real path of what exists at a path, if it lies below one of the roots. What is refused is
 * refused by where it lies or would lie: whether anything exists there makes no difference.
 * @param {string} path
 * @param {string[]} roots directories, or files
 * @returns {Promise<string>}
 */
export async function realPathBelow(path, roots) {
  const [found, ...places] = await Promise.all([path, ...roots].map(find));
  if (!places.some(({ place }) => isBelow(found.place, place))) {
    throw new ManifestError("location_not_allowed", "a symbolic link leads out of what is authorised");
  }
  if (found.missing !== null) throw found.missing;
  return found.place;
}

/** Where a path leads, and the error if nothing can be found there. */
async function find(path) {
  try {
    return { place: await realpath(path), missing: null };
  } catch (error) {
    return { place: await realPlace(path), missing: error };
  }
}

function isBelow(path, root) {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}
