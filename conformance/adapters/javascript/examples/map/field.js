/**
 * One horizontal field of a variable that follows the CF conventions: its values, and the cells of
 * longitude and latitude that they are for.
 */

import * as zarr from "zarrita";

import { describeTime } from "./times.js";

/**
 * A field of `rows` × `columns` cells, row by row.
 * @typedef {object} Field
 * @property {string} title
 * @property {string} units
 * @property {string} time
 * @property {Float64Array} values NaN where there is no data
 * @property {Cells} cells
 */

/**
 * Four corners of each cell, in degrees: those of cell i are the elements 4i to 4i+3.
 * @typedef {{longitudes: Float64Array, latitudes: Float64Array}} Cells
 */

/** Says `zarr_format: 3`, so that zarrita does not ask the server for Zarr v2. */
const openArray = (location) => zarr.open.v3(location, { kind: "array" });

/**
 * @param {zarr.Location<zarr.Readable>} root of the hierarchy
 * @param {string} path of the variable
 * @param {number} time along its first dimension, if it has more than two
 * @returns {Promise<Field>}
 */
export async function readField(root, path, time) {
  const variable = await openArray(root.resolve(path));
  const leading = variable.shape.length - 2;
  if (leading < 0) throw new Error(`${path} has no latitude and longitude`);
  const index = Array.from({ length: leading }, (_, axis) => (axis === 0 ? time : 0));
  const values = decode(await zarr.get(variable, [...index, null, null]), variable.attrs);
  const group = root.resolve(path).resolve("..");
  const dimensions = variable.dimensionNames ?? [];
  const coordinates = await readCoordinates(root, group, dimensions, variable.attrs);
  const when = [...coordinates.values()].find(({ attrs, dimensionNames }) =>
    / since /.test(attrs.units) && dimensionNames?.[0] === dimensions[0],
  );
  const { long_name, standard_name, units } = variable.attrs;
  return {
    title: (long_name ?? standard_name ?? path).replaceAll("_", " "),
    units: units ?? "",
    time: leading > 0 && when ? describeTime(Number(await zarr.get(when, [time])), when.attrs) : "",
    values,
    cells: await readCells(group, coordinates),
  };
}

/** Coordinate variables, by name: those of the dimensions, and those that `coordinates` names. */
async function readCoordinates(root, group, dimensions, attributes) {
  const names = [...dimensions, ...(attributes.coordinates ?? "").split(" ")].filter(Boolean);
  const nodes = await listNodes(root);
  const coordinates = new Map();
  for (const name of names) {
    const location = group.resolve(name);
    // A dimension need not have a coordinate.
    if (nodes && !nodes.has(location.path)) continue;
    try {
      coordinates.set(name, await openArray(location));
    } catch (error) {
      if (!zarr.isZarritaError(error, "NotFoundError")) throw error;
    }
  }
  return coordinates;
}

/** Paths of all nodes, if the root has consolidated metadata. */
async function listNodes(root) {
  const bytes = await root.store.get(root.resolve("zarr.json").path);
  const nodes = bytes && JSON.parse(new TextDecoder().decode(bytes)).consolidated_metadata?.metadata;
  return nodes && new Set(Object.keys(nodes).map((path) => root.resolve(path).path));
}

async function readCells(group, coordinates) {
  const find = (units) => [...coordinates.values()].find(({ attrs }) => units.test(attrs.units));
  const [longitude, latitude] = [find(/^degrees?_?e/i), find(/^degrees?_?n/i)];
  if (!longitude || !latitude) throw new Error("no longitude and latitude, by their units");
  if (longitude.shape.length === 1) {
    return rectangles(edges(await numbers(longitude)), edges(await numbers(latitude)));
  }
  const bounds = ({ attrs }) => openArray(group.resolve(attrs.bounds));
  const [longitudes, latitudes] = [await numbers(await bounds(longitude)), await numbers(await bounds(latitude))];
  const centres = await numbers(longitude);
  // Corners of a cell at the date line lie on both sides of it.
  const beside = longitudes.map((x, i) => x - 360 * Math.round((x - centres[Math.floor(i / 4)]) / 360));
  return { longitudes: beside, latitudes };
}

/** The borders between cells, half-way from one centre to the next. */
function edges(centres) {
  const last = centres.length - 1;
  return Float64Array.from({ length: centres.length + 1 }, (_, i) => {
    if (i === 0) return centres[0] - (centres[1] - centres[0]) / 2;
    if (i > last) return centres[last] + (centres[last] - centres[last - 1]) / 2;
    return (centres[i - 1] + centres[i]) / 2;
  });
}

function rectangles(x, y) {
  const [columns, rows] = [x.length - 1, y.length - 1];
  const longitudes = new Float64Array(4 * rows * columns);
  const latitudes = new Float64Array(4 * rows * columns);
  for (let cell = 0; cell < rows * columns; cell++) {
    const [row, column] = [Math.floor(cell / columns), cell % columns];
    longitudes.set([x[column], x[column + 1], x[column + 1], x[column]], 4 * cell);
    latitudes.set([y[row], y[row], y[row + 1], y[row + 1]], 4 * cell);
  }
  return { longitudes, latitudes };
}

async function numbers(array) {
  return inCOrder(await zarr.get(array));
}

/** Packed values as the attributes say, NaN where they say that there is no data. */
function decode(packed, { _FillValue, missing_value, scale_factor = 1, add_offset = 0 }) {
  const none = [scalar(_FillValue), scalar(missing_value)].filter((value) => value !== undefined);
  return inCOrder(packed).map((value) =>
    none.includes(value) ? NaN : value * scale_factor + add_offset,
  );
}

/** A number of an attribute; xarray writes that of a float as base64 of a double. */
function scalar(value) {
  if (typeof value !== "string") return value;
  const bytes = Uint8Array.from(atob(value), (character) => character.charCodeAt(0));
  return new DataView(bytes.buffer).getFloat64(0, true);
}

/** zarrita keeps the order of dimensions in which the codecs stored the values. */
function inCOrder({ data, shape, stride }) {
  const size = shape.reduce((product, n) => product * n, 1);
  const values = new Float64Array(size);
  for (let i = 0; i < size; i++) {
    let [rest, position] = [i, 0];
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      position += (rest % shape[axis]) * stride[axis];
      rest = Math.floor(rest / shape[axis]);
    }
    values[i] = Number(data[position]);
  }
  return values;
}
