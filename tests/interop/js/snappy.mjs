// Snappy's block format, to be read only.

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
