// Snappy, to be read only: the block format of gossip, the framed format of the sync protocol.

const MAX_BYTES = 10 << 20

// What data in block format decompresses to; null if it is none, or too large for OP Stack nodes.
export function unpack (data) {
  try {
    const [size, start] = varint(data)
    if (size > MAX_BYTES) return null
    const out = Buffer.alloc(size)
    let end = 0
    for (let at = start; at < data.length;) {
      const element = readElement(data, at)
      at = element.next
      if (end + element.size > size || element.back > end) return null
      if (element.back === 0) data.copy(out, end, at - element.size, at)
      for (let i = 0; i < element.size && element.back > 0; i++) out[end + i] = out[end + i - element.back]
      end += element.size
    }
    return end === size ? out : null
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}

// The element at an offset: its size, how far back it is copied from (0: a literal), and where the next one is.
function readElement (data, at) {
  const tag = data.readUInt8(at++)
  const rest = tag >> 2
  if ((tag & 3) === 0) {
    const bytes = Math.max(0, rest - 59)
    const size = (bytes > 0 ? data.readUIntLE(at, bytes) : rest) + 1
    if (at + bytes + size > data.length) throw new RangeError('a literal is cut short')
    return { size, back: 0, next: at + bytes + size }
  }
  const bytes = [1, 2, 4][(tag & 3) - 1]
  const low = data.readUIntLE(at, bytes)
  const copy = bytes === 1 ? { size: 4 + (rest & 7), back: (tag >> 5 << 8) + low } : { size: 1 + rest, back: low }
  if (copy.back === 0) throw new RangeError('a copy of what is not there yet')
  return { ...copy, next: at + bytes }
}

function varint (data) {
  let value = 0
  for (let at = 0; at < 5; at++) {
    value += (data.readUInt8(at) & 127) * 2 ** (7 * at)
    if (data[at] < 128) return [value, at + 1]
  }
  throw new RangeError('no length')
}

// What data in framed format decompresses to, every checksum compared.
export function unframe (data) {
  if (data.subarray(0, 10).toString('latin1') !== '\xff\x06\x00\x00sNaPpY') throw new Error('no stream identifier')
  const parts = []
  for (let at = 10; at < data.length;) {
    const end = at + 4 + data.readUIntLE(at + 1, 3)
    const body = data.subarray(at + 8, end)
    if (data[at] > 1 || end > data.length) throw new Error(`a bad chunk of kind ${data[at]}`)
    const part = data[at] === 0 ? unpack(body) : body
    if (part === null || part.length > 65536) throw new Error('a bad chunk')
    if (checksum(part) !== data.readUInt32LE(at + 4)) throw new Error('a wrong checksum')
    parts.push(part)
    at = end
  }
  return Buffer.concat(parts)
}

const TABLE = Uint32Array.from({ length: 256 }, (_, value) => {
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1
  return value
})

// CRC-32C, masked.
function checksum (data) {
  let crc = 0xffffffff
  for (const byte of data) crc = TABLE[(crc ^ byte) & 255] ^ (crc >>> 8)
  crc = ~crc >>> 0
  return ((crc >>> 15 | crc << 17) + 0xa282ead8) >>> 0
}
