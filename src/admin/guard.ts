import { createHash, timingSafeEqual } from 'node:crypto'
import { isIPv4 } from 'node:net'
import type { Context, MiddlewareHandler } from 'hono'
import { WaybillError } from '../errors.ts'
import { show } from '../wording.ts'
import { forbidden, unauthorized } from './errors.ts'

/** Actions without a token carry it, so that a plain form or link of another page cannot act. */
export const actionHeader = 'x-waybill-action'

/** True for addresses that only this machine can reach. */
export function isLoopback(host: string): boolean {
  const name = host.replace(/^\[(.*)\]$/, '$1').toLowerCase()
  return name === 'localhost' || name === '::1' || (isIPv4(name) && name.startsWith('127.'))
}

/**
 * Anything but loopback needs a token: whoever reaches the server may read events and discard dead letters.
 *
 * @throws CONFIGURATION_INVALID
 */
export function checkBinding(host: string, token: string | undefined): void {
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
    throw new WaybillError(
      'CONFIGURATION_INVALID',
      'expected admin.token to be printable ASCII without spaces, at least one character',
    )
  }
  if (token === undefined && !isLoopback(host)) {
    throw new WaybillError(
      'CONFIGURATION_INVALID',
      `admin.host ${show(host)} can be reached from other machines: set admin.token, or use 127.0.0.1`,
    )
  }
}

/**
 * Without a token only the address protects the server, and a page of another origin whose name resolves to
 * 127.0.0.1 gets past that (DNS rebinding): then the name in `Host` gives it away.
 */
export function requireLoopbackName(token: string | undefined): MiddlewareHandler {
  return async (c, next) => {
    if (token === undefined && !isLoopback(hostName(c.req.header('host')))) {
      throw forbidden('without a token the server answers to localhost, 127.0.0.1 and [::1] only')
    }
    await next()
  }
}

/** Everything about events, and the metrics, need the token where one is set. */
export function requireToken(token: string | undefined): MiddlewareHandler {
  return async (c, next) => {
    if (!hasToken(c, token)) throw unauthorized()
    await next()
  }
}

/** True when the request shows the token by its header, or none is set. */
export function hasToken(c: Context, token: string | undefined): boolean {
  return (
    token === undefined || isToken(/^Bearer +(\S+)$/i.exec(c.req.header('authorization') ?? '')?.[1], token)
  )
}

/** A form of another site must not log anybody in or out. Browsers say where a form stands. */
export const requireSameSite: MiddlewareHandler = async (c, next) => {
  if (!['same-origin', 'none'].includes(c.req.header('sec-fetch-site') ?? 'none'))
    throw forbidden('this form must come from this server’s own page, not from another site')
  await next()
}

/** An action without a token: from a page of this very server or from no page at all, and with the custom header. */
export function requireIntent(token: string | undefined): MiddlewareHandler {
  return async (c, next) => {
    // A token comes from no browser by itself: who sends it means it.
    if (token === undefined) {
      if (c.req.header(actionHeader) !== '1')
        throw forbidden(`an action needs the header "${actionHeader}: 1"`)
      const site = c.req.header('sec-fetch-site') ?? 'none'
      if (
        !['same-origin', 'none'].includes(site) ||
        !isSameOrigin(c.req.header('origin'), c.req.header('host'))
      ) {
        throw forbidden('an action must come from this server’s own page, not from another site')
      }
    }
    await next()
  }
}

/** Compared in constant time. */
export function isToken(given: unknown, token: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  // Of equal length whatever was sent.
  return timingSafeEqual(digest(typeof given === 'string' ? given : ''), digest(token))
}

function isSameOrigin(origin: string | undefined, host: string | undefined): boolean {
  if (origin === undefined) return true
  return URL.canParse(origin) && new URL(origin).host === host?.toLowerCase()
}

function hostName(host: string | undefined): string {
  return /^(\[[^\]]*\]|[^:]*)(?::\d+)?$/.exec(host ?? '')?.[1] ?? ''
}
