import { undeliverable } from '../../publishing/publisher.ts'

/** Where one message goes. */
export interface Target {
  readonly url: URL
  /** Of the URL, which works both out each time it is asked: path and query. */
  readonly origin: string
  readonly path: string
  /** Given by a route for this one event: then one destination stands for many hosts. */
  readonly computed: boolean
  /** Headers beside those of the message: name, value, name, value … */
  readonly headers: readonly string[]
}

export function configuredTarget(text: string, headers: Readonly<Record<string, string>>): Target {
  const url = new URL(text)
  const flat = Object.entries(headers).flat()
  const names = Object.keys(headers).map((name) => name.toLowerCase())
  const basic = basicAuthorization(url)
  if (basic !== undefined && !names.includes('authorization')) flat.push('authorization', basic)
  if (!names.includes('user-agent')) flat.push('user-agent', 'waybill')
  return { ...addressOf(url), computed: false, headers: flat }
}

/** Configured headers may hold a credential, so they go to the configured origin and nowhere else. */
export function computedTarget(text: string, configured: Target): Target {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw undeliverable('the url that the route gave is not a URL that starts with http:// or https://')
  }
  const address = addressOf(url)
  if (address.origin === configured.origin) return { ...address, computed: true, headers: configured.headers }
  const basic = basicAuthorization(url)
  const headers = ['user-agent', 'waybill', ...(basic === undefined ? [] : ['authorization', basic])]
  return { ...address, computed: true, headers }
}

const addressOf = (url: URL) => ({ url, origin: url.origin, path: url.pathname + url.search })

function basicAuthorization({ username, password }: URL): string | undefined {
  if (username === '' && password === '') return undefined
  const pair = `${decode(username)}:${decode(password)}`
  return `Basic ${Buffer.from(pair).toString('base64')}`
}

/** A `%` in a password that somebody did not write as `%25` stands for itself. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
