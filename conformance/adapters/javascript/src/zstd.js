/**
 * zstd (RFC 8878), frame by frame.
 *
 * fzstd decodes blocks, but believes headers: it allocates what they claim, and verifies neither
 * the content size nor the content checksum. So frames are measured here before, and checked after.
 */

import { Decompress } from "fzstd";
import createHashes from "xxhash-wasm";

const MAGIC = 0xfd2fb528;
const LARGEST_WINDOW = 128 * 1024 * 1024; // what the zstd library allows by default

/**
 * @param {Uint8Array} bytes one or more frames
 * @param {import("./codecs.js").BoundedOutput} output
 */
export async function decodeZstd(bytes, output) {
  if (bytes.length === 0) throw new Error("no frame");
  const hashes = await createHashes();
  for (let start = 0; start < bytes.length; ) {
    const frame = measureFrame(bytes.subarray(start));
    if (!frame.skippable) decodeFrame(bytes.subarray(start, start + frame.size), frame, hashes, output);
    start += frame.size;
  }
}

function decodeFrame(bytes, frame, hashes, output) {
  output.expect(frame.contentSize ?? 0);
  const hash = hashes.create64();
  let size = 0;
  const decompress = new Decompress((chunk) => {
    output.push(chunk.slice());
    hash.update(chunk);
    size += chunk.length;
  });
  decompress.push(bytes, true);
  if (frame.contentSize !== null && size !== frame.contentSize) {
    throw new Error(`${size} bytes where the frame says ${frame.contentSize}`);
  }
  if (!frame.hasChecksum) return;
  const stated = view(bytes).getUint32(bytes.length - 4, true);
  if (Number(hash.digest() & 0xffffffffn) !== stated) throw new Error("wrong checksum");
}

/** The size of a frame, and what its header says. */
function measureFrame(bytes) {
  const data = view(bytes);
  const magic = data.getUint32(0, true);
  if ((magic & 0xfffffff0) === 0x184d2a50) {
    const size = 8 + data.getUint32(4, true);
    if (size > bytes.length) throw new Error("a truncated frame");
    return { skippable: true, size };
  }
  if (magic !== MAGIC) throw new Error("not a zstd frame");
  const header = readHeader(data);
  let position = header.size;
  for (let last = false; !last; ) {
    const block = data.getUint16(position, true) | (data.getUint8(position + 2) << 16);
    const type = (block >> 1) & 3;
    if (type === 3) throw new Error("a reserved type of block");
    last = (block & 1) === 1;
    position += 3 + (type === 1 ? 1 : block >> 3);
  }
  const size = position + (header.hasChecksum ? 4 : 0);
  if (size > bytes.length) throw new Error("a truncated frame");
  return { ...header, skippable: false, size };
}

/** RFC 8878 section 3.1.1.1. A truncated header is a RangeError of the DataView. */
function readHeader(data) {
  const descriptor = data.getUint8(4);
  const singleSegment = (descriptor & 0x20) !== 0;
  if (descriptor & 0x08) throw new Error("a reserved bit of the header is set");
  const dictionarySize = [0, 1, 2, 4][descriptor & 3];
  for (let i = 0; i < dictionarySize; i++) {
    if (data.getUint8(5 + (singleSegment ? 0 : 1) + i) !== 0) throw new Error("needs a dictionary");
  }
  const sizeStart = 5 + (singleSegment ? 0 : 1) + dictionarySize;
  const sizeFlag = descriptor >> 6;
  const sizeLength = sizeFlag === 0 ? (singleSegment ? 1 : 0) : 1 << sizeFlag;
  const contentSize = readContentSize(data, sizeStart, sizeLength);
  // A single segment is its own window, and bounded by the limit of the content.
  const window = singleSegment ? 0 : readWindow(data.getUint8(5));
  if (window > LARGEST_WINDOW) throw new Error(`a window of ${window} bytes`);
  const hasChecksum = (descriptor & 0x04) !== 0;
  return { size: sizeStart + sizeLength, contentSize, hasChecksum };
}

function readContentSize(data, start, length) {
  switch (length) {
    case 0: return null;
    case 1: return data.getUint8(start);
    case 2: return data.getUint16(start, true) + 256;
    case 4: return data.getUint32(start, true);
    default: return Number(data.getBigUint64(start, true));
  }
}

function readWindow(descriptor) {
  const base = 2 ** (10 + (descriptor >> 3));
  return base + (base / 8) * (descriptor & 7);
}

function view(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
