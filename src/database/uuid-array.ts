const uuidOid = 2950
const uuidBytes = 16
const headerBytes = 20

/** What a character of hexadecimal is worth, by its code. */
const nibbles = new Uint8Array(128)
for (let value = 0; value < 16; value++) {
  const digit = value.toString(16)
  nibbles[digit.charCodeAt(0)] = value
  nibbles[digit.toUpperCase().charCodeAt(0)] = value
}

/**
 * An array of uuid as PostgreSQL takes it in binary form (`array_send`, `uuid_send`): `pg` sends a Buffer so. To read
 * them from text was a fifth of a statement that deletes their rows.
 *
 * @param ids in the form in which PostgreSQL prints a uuid
 */
export function uuidArray(ids: readonly string[]): Buffer {
  const buffer = Buffer.alloc(headerBytes + ids.length * (4 + uuidBytes))
  let at = buffer.writeInt32BE(ids.length === 0 ? 0 : 1, 0)
  at = buffer.writeInt32BE(0, at)
  at = buffer.writeInt32BE(uuidOid, at)
  if (ids.length === 0) return buffer.subarray(0, at)
  at = buffer.writeInt32BE(ids.length, at)
  at = buffer.writeInt32BE(1, at)
  for (const id of ids) {
    buffer[at + 3] = uuidBytes
    at += 4
    for (let i = 0; i < 36; i += 2) {
      if (i === 8 || i === 13 || i === 18 || i === 23) i++
      buffer[at++] = (nibbles[id.charCodeAt(i)]! << 4) | nibbles[id.charCodeAt(i + 1)]!
    }
  }
  return buffer
}
