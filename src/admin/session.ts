import { createHmac, randomBytes } from 'node:crypto'
import type { Context } from 'hono'
import { deleteCookie, getSignedCookie, setSignedCookie } from 'hono/cookie'
import type { CookieOptions } from 'hono/utils/cookie'

/** Who has shown the token in a browser. Known to this process only, in a cookie that does not hold the token. */
export interface Sessions {
  open(c: Context): Promise<void>
  isOpen(c: Context): Promise<boolean>
  close(c: Context): void
}

const lastsSeconds = 12 * 3600

/** A cookie is good until this process ends or twelve hours are over. */
export function createSessions(token: string): Sessions {
  const secret = createHmac('sha256', randomBytes(32)).update(token).digest()
  // Browsers keep the cookies of all ports of a host together: two relays must not end each other's sessions.
  const name = `waybill_${randomBytes(4).toString('hex')}`
  const options = (c: Context): CookieOptions => ({
    ...{ path: '/', httpOnly: true, sameSite: 'Strict', secure: isHttps(c) },
  })
  return {
    async open(c) {
      const until = String(Date.now() + lastsSeconds * 1000)
      await setSignedCookie(c, name, until, secret, { ...options(c), maxAge: lastsSeconds })
    },
    async isOpen(c) {
      // The signature is compared in constant time.
      const until = await getSignedCookie(c, secret, name)
      return typeof until === 'string' && Number(until) > Date.now()
    },
    close: (c) => void deleteCookie(c, name, options(c)),
  }
}

/** Also behind a proxy that ends TLS. Whoever lies here keeps their own browser from sending the cookie. */
function isHttps(c: Context): boolean {
  return new URL(c.req.url).protocol === 'https:' || /^https\b/i.test(c.req.header('x-forwarded-proto') ?? '')
}
