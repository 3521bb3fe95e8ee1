import { createHmac } from 'node:crypto'

export interface Signature {
  /** Seconds since 1970. */
  readonly timestamp: string
  /** One signature for each secret, separated by spaces. */
  readonly signature: string
}

export type Signer = (messageId: string, body: string, nowMs: number) => Signature

/**
 * Signs as Standard Webhooks 1.0 says: HMAC-SHA256 over `id.timestamp.body`. With several secrets there are
 * several signatures, so that a receiver can change from one secret to the next without a gap.
 */
export function createSigner(secrets: readonly string[]): Signer {
  const keys = secrets.map(secretKey)
  return (messageId, body, nowMs) => {
    const timestamp = String(Math.floor(nowMs / 1000))
    const start = `${messageId}.${timestamp}.`
    const signature = keys
      .map((key) => `v1,${createHmac('sha256', key).update(start).update(body).digest('base64')}`)
      .join(' ')
    return { timestamp, signature }
  }
}

const prefix = 'whsec_'
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/** True for `whsec_` and base64, or for any other text that is not empty. */
export function isSecret(secret: string): boolean {
  return secret.startsWith(prefix)
    ? secret.length > prefix.length && base64.test(secret.slice(prefix.length))
    : secret !== ''
}

export function secretKey(secret: string): Buffer {
  return secret.startsWith(prefix)
    ? Buffer.from(secret.slice(prefix.length), 'base64')
    : Buffer.from(secret, 'utf8')
}
