import { type KeyObject, generateKeyPairSync, randomBytes, sign } from 'node:crypto'

/**
 * A certificate of its own for `127.0.0.1` and `localhost`, or for one of them, made here so that no private key is
 * kept anywhere.
 */
export function selfSignedCertificate(
  names: readonly ('127.0.0.1' | 'localhost')[] = ['127.0.0.1', 'localhost'],
): { key: string; cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const algorithm = sequence(objectId('2a8648ce3d040302')) // ecdsa-with-SHA256
  const name = sequence(set(sequence(objectId('550403'), element(0x0c, Buffer.from('waybill test')))))
  const validity = sequence(time(-1), time(1))
  const body = sequence(
    element(0xa0, integer(Buffer.from([2]))), // version 3
    integer(Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    algorithm,
    name,
    validity,
    name,
    spki(publicKey),
    element(0xa3, sequence(alternativeNames(names))),
  )
  const signature = sign('sha256', body, privateKey)
  const der = sequence(body, algorithm, bitString(signature))
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    cert: `-----BEGIN CERTIFICATE-----\n${der.toString('base64').replace(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
  }
}

function alternativeNames(names: readonly string[]): Buffer {
  const encoded = names.map((name) =>
    name === 'localhost' ? element(0x82, Buffer.from(name)) : element(0x87, Buffer.from([127, 0, 0, 1])),
  )
  return sequence(objectId('551d11'), element(0x04, sequence(...encoded)))
}

function spki(key: KeyObject): Buffer {
  return key.export({ type: 'spki', format: 'der' })
}

// The few types of DER that a certificate is made of.
function element(tag: number, content: Buffer): Buffer {
  const { length } = content
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}
const sequence = (...parts: Buffer[]) => element(0x30, Buffer.concat(parts))
const set = (...parts: Buffer[]) => element(0x31, Buffer.concat(parts))
const integer = (bytes: Buffer) => element(0x02, bytes)
const objectId = (hex: string) => element(0x06, Buffer.from(hex, 'hex'))
const bitString = (bytes: Buffer) => element(0x03, Buffer.concat([Buffer.from([0]), bytes]))

function time(days: number): Buffer {
  const text = new Date(Date.now() + days * 86_400_000).toISOString()
  return element(0x17, Buffer.from(`${text.slice(2, 19).replaceAll(/[-:T]/g, '')}Z`))
}
