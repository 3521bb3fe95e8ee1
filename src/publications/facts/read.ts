import type { PublicationKey } from '../key.ts'
import type { PublicRead } from '../publication.ts'

/** What a public read really answered. */
export interface ReadFact {
  /** With the aggregate's id in it: what was asked, parameters included. */
  readonly url: string
  /** HTTP status; a redirect is not followed, another place is another answer. */
  readonly httpStatus: number
  /** Decimal text; null: the answer tells none. */
  readonly revision: string | null
  /** Why there is no revision; null when there is one. */
  readonly noRevision: string | null
  /** The headers that tell a cache: `age`, `cache-control`, `etag`, `x-cache`, `last-modified`, and the API's version. */
  readonly headers: Readonly<Record<string, string>>
  readonly answeredAt: string
  readonly tookMs: number
}

const toldHeaders = [
  'age',
  'cache-control',
  'etag',
  'last-modified',
  'x-cache',
  'cf-cache-status',
  'api-version',
  'x-api-version',
  'vary',
]
const maxBodyBytes = 1024 * 1024

/** Asks as a reader does, with no header that would go around a cache. */
export async function findRead(
  read: PublicRead,
  { id, revision }: PublicationKey,
  signal: AbortSignal,
): Promise<ReadFact> {
  const url = read.url
    .replaceAll('{id}', encodeURIComponent(id))
    .replaceAll('{revision}', encodeURIComponent(String(revision)))
  const startedAt = performance.now()
  const response = await fetch(url, { redirect: 'manual', signal, headers: { accept: 'application/json' } })
  const body = await readBody(response)
  const headers: Record<string, string> = {}
  for (const name of toldHeaders) {
    const value = response.headers.get(name)
    if (value !== null) headers[name] = value.slice(0, 300)
  }
  return {
    url,
    httpStatus: response.status,
    ...revisionIn(read.revision, response, body),
    headers,
    answeredAt: new Date().toISOString(),
    tookMs: Math.round(performance.now() - startedAt),
  }
}

async function readBody(response: Response): Promise<string> {
  let text = ''
  if (response.body === null) return text
  const decoder = new TextDecoder()
  let bytes = 0
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength
    if (bytes > maxBodyBytes) throw new Error(`the answer is larger than ${maxBodyBytes} bytes`)
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}

type Revision = Pick<ReadFact, 'revision' | 'noRevision'>

function revisionIn(place: string, response: Response, body: string): Revision {
  const none = (noRevision: string): Revision => ({ revision: null, noRevision })
  if (response.status >= 300 && response.status < 400)
    return none(`it redirects to ${response.headers.get('location') ?? 'nowhere'}`)
  if (!response.ok) return none(`HTTP ${response.status}`)
  const dot = place.indexOf('.')
  const [where, path] = [place.slice(0, dot), place.slice(dot + 1)]
  if (where === 'header') return whole(response.headers.get(path), `the header ${path}`)
  let value: unknown
  try {
    value = JSON.parse(body)
  } catch {
    return none(`the answer is not JSON (${response.headers.get('content-type') ?? 'no content type'})`)
  }
  for (const part of path.split('.')) value = (value as Record<string, unknown> | null | undefined)?.[part]
  return whole(value, place)
}

function whole(value: unknown, name: string): Revision {
  // A number beyond 2^53 has lost digits by now.
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0)
    return { revision: String(value), noRevision: null }
  const text = typeof value === 'string' ? value.trim().replace(/^W?\/?"(.*)"$/, '$1') : ''
  if (/^\d{1,19}$/.test(text)) return { revision: String(BigInt(text)), noRevision: null }
  return {
    revision: null,
    noRevision: value === undefined || value === null ? `${name} is not there` : `${name} is no whole number`,
  }
}
