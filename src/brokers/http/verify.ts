import { createHmac, timingSafeEqual } from 'node:crypto'
import { secretKey } from './signature.ts'

export interface SignedRequest {
  readonly id: string | undefined
  readonly timestamp: string | undefined
  readonly signature: string | undefined
  readonly body: Buffer
}

export interface Verifier {
  /** Why the request is refused, or undefined when it is genuine and fresh. */
  refusal(request: SignedRequest, nowMs: number): string | undefined
}

/** Checks what `createSigner` made, as Standard Webhooks 1.0 says. Any of the secrets may have signed. */
export function createVerifier(secrets: readonly string[], toleranceSeconds: number): Verifier {
  const keys = secrets.map(secretKey)
  return {
    refusal({ id, timestamp, signature, body }, nowMs) {
      if (!id || !timestamp || !signature) {
        return 'the headers webhook-id, webhook-timestamp and webhook-signature are needed'
      }
      const sent = /^\d{1,12}$/.test(timestamp) ? Number(timestamp) : Number.NaN
      // The signature first: a stranger need not know what this clock says.
      const start = `${id}.${timestamp}.`
      const expected = keys.map((key) => createHmac('sha256', key).update(start).update(body).digest())
      const given = signature.split(' ').flatMap((part) => {
        const [version, value] = part.split(',', 2)
        return version === 'v1' && value !== undefined ? [Buffer.from(value, 'base64')] : []
      })
      if (
        !given.some((mac) => expected.some((own) => mac.length === own.length && timingSafeEqual(mac, own)))
      ) {
        return 'the signature does not fit'
      }
      return Math.abs(nowMs / 1000 - sent) <= toleranceSeconds
        ? undefined
        : `the timestamp is more than ${toleranceSeconds} seconds away from the clock here`
    },
  }
}
