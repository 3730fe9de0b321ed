/** CRC-32 (RFC 1952) and CRC-32C (RFC 3720), by table. */

function makeTable(polynomial) {
  return Uint32Array.from({ length: 256 }, (_, byte) => {
    let value = byte;
    for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ polynomial : value >>> 1;
    return value;
  });
}

const CRC32 = makeTable(0xedb88320);
const CRC32C = makeTable(0x82f63b78);

function crc(table, bytes) {
  let value = 0xffffffff;
  for (let i = 0; i < bytes.length; i++) value = (value >>> 8) ^ table[(value ^ bytes[i]) & 0xff];
  return (value ^ 0xffffffff) >>> 0;
}

/** @param {Uint8Array} bytes */
export const crc32 = (bytes) => crc(CRC32, bytes);

/** @param {Uint8Array} bytes */
export const crc32c = (bytes) => crc(CRC32C, bytes);
