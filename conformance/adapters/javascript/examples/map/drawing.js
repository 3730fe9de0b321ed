/** Draws a field on a canvas, north up, with labels of longitude and latitude and a scale of colours. */

/** @typedef {import("./field.js").Field} Field */
/** @typedef {import("./field.js").Cells} Cells */

const WIDTH = 1440;
const STEPS = [1, 2, 5, 10, 15, 30, 60];

// matplotlib's viridis.
const COLOURS = [
  0x440154, 0x48186a, 0x472d7b, 0x424086, 0x3b528b, 0x33638d, 0x2c728e, 0x26828e, 0x21918c,
  0x1fa088, 0x28ae80, 0x3fbc73, 0x5ec962, 0x84d44b, 0xaddc30, 0xd8e219, 0xfde725,
].map((hex) => [hex >> 16, (hex >> 8) & 255, hex & 255]);

/**
 * @param {HTMLElement} place
 * @param {Field} field
 */
export function drawMap(place, field) {
  const extent = extentOf(field.cells);
  const canvas = document.createElement("canvas");
  canvas.width = WIDTH;
  canvas.height = Math.round((WIDTH * (extent.north - extent.south)) / (extent.east - extent.west));
  const image = new ImageData(canvas.width, canvas.height);
  const [least, most] = range(field.values);
  field.values.forEach((value, cell) => {
    // Where there is no data, the image stays transparent.
    if (!Number.isNaN(value)) paint(image, extent, corners(field.cells, cell), colour(value, least, most));
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  place.replaceChildren(canvas, ...labels(extent));
}

/**
 * @param {HTMLElement} place
 * @param {Field} field
 */
export function drawScale(place, { values, units }) {
  const [least, most] = range(values);
  const canvas = document.createElement("canvas");
  canvas.width = 256;
  canvas.height = 1;
  const image = new ImageData(canvas.width, 1);
  for (let x = 0; x < canvas.width; x++) image.data.set(colour(x, 0, canvas.width - 1), 4 * x);
  canvas.getContext("2d").putImageData(image, 0, 0);
  const texts = [least, (least + most) / 2, most].map((value) => {
    const text = document.createElement("span");
    text.textContent = `${Number(value.toPrecision(4))} ${units}`;
    return text;
  });
  place.replaceChildren(canvas, ...texts);
}

function range(values) {
  const least = values.reduce((a, b) => (b < a ? b : a), Infinity);
  const most = values.reduce((a, b) => (b > a ? b : a), -Infinity);
  if (least > most) throw new Error("there is no data at this time");
  return [least, most];
}

function colour(value, least, most) {
  const position = most > least ? ((value - least) / (most - least)) * (COLOURS.length - 1) : 0;
  const below = Math.min(Math.floor(position), COLOURS.length - 2);
  const mixed = COLOURS[below].map((from, i) => from + (position - below) * (COLOURS[below + 1][i] - from));
  return [...mixed.map(Math.round), 255];
}

/** What the map shows: all cells, and no more than once around the Earth. */
function extentOf({ longitudes, latitudes }) {
  const [west, east] = range(longitudes);
  const [south, north] = range(latitudes);
  if (east - west <= 360) return { west, east, south, north };
  return west < -90 ? { west: -180, east: 180, south, north } : { west: 0, east: 360, south, north };
}

function corners({ longitudes, latitudes }, cell) {
  return [0, 1, 2, 3].map((i) => [longitudes[4 * cell + i], latitudes[4 * cell + i]]);
}

/** Paint the pixels whose centres are in a cell, and wherever the cell is once around the Earth. */
function paint(image, extent, corners, colour) {
  const degrees = (extent.east - extent.west) / image.width;
  for (const shift of [-360, 0, 360]) {
    const polygon = corners.map(([longitude, latitude]) => [
      (longitude + shift - extent.west) / degrees - 0.5,
      (extent.north - latitude) / degrees - 0.5,
    ]);
    const [left, right] = range(polygon.map(([x]) => x));
    const [top, bottom] = range(polygon.map(([, y]) => y));
    for (let y = Math.max(0, Math.ceil(top)); y <= Math.min(image.height - 1, bottom); y++) {
      for (let x = Math.max(0, Math.ceil(left)); x <= Math.min(image.width - 1, right); x++) {
        if (contains(polygon, x, y)) image.data.set(colour, 4 * (y * image.width + x));
      }
    }
  }
}

/** Whether a point is in a polygon: whether a line from it to the west crosses the border an odd number of times. */
function contains(polygon, x, y) {
  let inside = false;
  polygon.forEach(([x1, y1], i) => {
    const [x2, y2] = polygon[(i + 1) % polygon.length];
    if (y1 > y !== y2 > y && x >= x1 + ((y - y1) / (y2 - y1)) * (x2 - x1)) inside = !inside;
  });
  return inside;
}

function labels({ west, east, south, north }) {
  const step = STEPS.find((degrees) => (east - west) / degrees <= 12) ?? 60;
  const longitudes = multiples(west, east, step).map((degrees) => {
    const beyond = ((((degrees + 180) % 360) + 360) % 360) - 180;
    return label("longitude", "left", (degrees - west) / (east - west), beyond, "E", "W");
  });
  const latitudes = multiples(south, north, step).map((degrees) =>
    label("latitude", "top", (north - degrees) / (north - south), degrees, "N", "S"),
  );
  return [...longitudes, ...latitudes];
}

function multiples(from, to, step) {
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.floor(to / step) - first + 1 }, (_, i) => (first + i) * step);
}

function label(name, side, fraction, degrees, positive, negative) {
  const text = document.createElement("span");
  text.className = name;
  text.style[side] = `${100 * fraction}%`;
  const direction = degrees === 0 || degrees === -180 ? "" : degrees > 0 ? positive : negative;
  text.textContent = `${Math.abs(degrees)}°${direction}`;
  return text;
}
