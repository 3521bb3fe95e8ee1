import { hasCode } from '../errors.ts'
import {
  type OptionsOf,
  either,
  instance,
  integer,
  list,
  object,
  resolveOptions,
  string,
} from '../options.ts'
import type { HeaderPair } from '../publishing/headers.ts'
import type { Delivery, DeliveryAnswer, Receiver, Source } from '../publishing/source.ts'
import { isSecret } from './http/signature.ts'
import { type Verifier, createVerifier } from './http/verify.ts'

const secret = string({
  accepts: isSecret,
  expected: 'a secret: whsec_ and base64, or any other text',
  secret: true,
})

export const webhookSourceOptions = object({
  secret: either(
    [secret, list(secret, { min: 1 }), instance<null>('null', (value) => value === null)],
    (value) => (value === null ? 2 : Array.isArray(value) ? 1 : 0),
  ).describe('What the sender signs with; a list while one is replaced by another; null to take anything.'),
  toleranceSeconds: integer({ min: 1, max: 86_400 })
    .default(300)
    .describe('How far the time of a request may be from the clock here.'),
  maxBodyBytes: integer({ min: 1, max: 1_073_741_824 })
    .default(10_485_760)
    .describe('Largest body that is taken.'),
})

export interface WebhookSourceOptions {
  /** What the sender signs with, as for Standard Webhooks; a list while one is replaced by another; null: unsigned. */
  secret: string | readonly string[] | null
  /** How far the time of a request may be from the clock here, in seconds. Default: 300. */
  toleranceSeconds?: number
  /** Largest body that is taken. Default: 10 MiB. */
  maxBodyBytes?: number
  /** For logs and metrics. Default: `webhook`. */
  name?: string
}

/** Takes events by HTTP. Answers 2xx only after the commit. */
export interface WebhookSource extends Source {
  /** For servers that know `Request` and `Response` (Hono, Bun, Deno, Next.js). */
  readonly fetch: (request: Request) => Promise<Response>
  /** For `node:http` and Express; nothing may have read the body before. */
  readonly node: (request: NodeRequest, response: NodeResponse) => void
}

/** `IncomingMessage` of `node:http`, as far as it is needed. */
export interface NodeRequest extends AsyncIterable<Uint8Array> {
  readonly method?: string | undefined
  readonly rawHeaders: readonly string[]
}

/** `ServerResponse` of `node:http`, as far as it is needed. */
export interface NodeResponse {
  writeHead(status: number, headers: Record<string, string>): unknown
  end(text: string): unknown
  destroy(): unknown
}

interface Answer {
  readonly status: number
  readonly text: string
  readonly headers?: Record<string, string>
}

/** After a start, what comes may have ended the process before; senders come again within minutes. */
const suspicionMs = 600_000

/**
 * The other end of the webhook publisher, and of any sender of Standard Webhooks.
 *
 *     const source = webhookSource({ secret: process.env.HOOK_SECRET })
 *     http.createServer(source.node).listen(9000)
 *
 * @throws CONFIGURATION_INVALID
 */
export function webhookSource(options: WebhookSourceOptions): WebhookSource {
  const { name = 'webhook', ...rest } = options
  const settings = resolveOptions(webhookSourceOptions, rest, { path: name })
  const verifier = verifierOf(settings)
  const underWay = new Set<Promise<unknown>>()
  let receiver: Receiver | undefined
  let startedAt = 0

  async function take(headers: readonly HeaderPair[], body: Buffer): Promise<Answer> {
    const get = (wanted: string) => headers.find(([header]) => header.toLowerCase() === wanted)?.[1]
    const id = get('webhook-id')
    const refusal = verifier?.refusal(
      { id, timestamp: get('webhook-timestamp'), signature: get('webhook-signature'), body },
      Date.now(),
    )
    if (refusal !== undefined) return { status: 401, text: refusal }
    if (receiver === undefined) return { status: 503, text: 'not at work', headers: { 'retry-after': '1' } }
    const answering = receiver(toDelivery(headers, body, get('content-type') ?? null, id))
    underWay.add(answering)
    const answer = await answering
    underWay.delete(answering)
    return toAnswer(answer)
  }

  function toDelivery(
    headers: readonly HeaderPair[],
    body: Buffer,
    contentType: string | null,
    id: string | undefined,
  ): Delivery {
    return {
      ...{ binding: 'http', body, headers, contentType, topic: null, key: null },
      ...{ origin: `webhook:${id ?? 'without-id'}`, redelivered: Date.now() - startedAt < suspicionMs },
    }
  }

  return {
    name,
    subscription: null,
    // The relay sends the next event of an aggregate only after the answer.
    capabilities: { ordering: 'aggregate', holding: false },
    async fetch(request) {
      if (request.method !== 'POST') return toResponse(onlyPost)
      const body = await readBody(request.body ?? [], settings.maxBodyBytes)
      return toResponse(body === undefined ? tooLarge : await take([...request.headers], body))
    },
    node(request, response) {
      void answerNode(request, response, settings.maxBodyBytes, take)
    },
    async start(receive) {
      receiver = receive
      startedAt = Date.now()
    },
    async stop() {
      receiver = undefined
      await Promise.all(underWay)
    },
  }
}

function verifierOf(settings: OptionsOf<typeof webhookSourceOptions>): Verifier | undefined {
  const { secret, toleranceSeconds } = settings
  return secret === null ? undefined : createVerifier([secret].flat(), toleranceSeconds)
}

const onlyPost: Answer = { status: 405, text: 'only POST is taken', headers: { allow: 'POST' } }
const tooLarge: Answer = { status: 413, text: 'the body is too large' }

/** A failure of the handler is about this event; everything else is about this consumer, and says so by 503. */
function toAnswer(answer: DeliveryAnswer): Answer {
  if (answer.status === 'done') return { status: 204, text: '' }
  const { error, afterMs } = answer
  if (!hasCode(error, 'BROKER_UNAVAILABLE')) return { status: 500, text: 'the handler failed' }
  return { status: 503, text: 'not now', headers: { 'retry-after': String(Math.ceil(afterMs / 1000)) } }
}

function toResponse({ status, text, headers = {} }: Answer): Response {
  return new Response(text === '' ? null : text, { status, headers })
}

/** Undefined when it is too large: the rest is not read. */
async function readBody(chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>, limit: number) {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const chunk of chunks) {
    size += chunk.length
    if (size > limit) return undefined
    parts.push(chunk)
  }
  return Buffer.concat(parts)
}

async function answerNode(
  request: NodeRequest,
  response: NodeResponse,
  limit: number,
  take: (headers: readonly HeaderPair[], body: Buffer) => Promise<Answer>,
): Promise<void> {
  let answer: Answer = onlyPost
  try {
    if (request.method === 'POST') {
      const body = await readBody(request, limit)
      answer = body === undefined ? tooLarge : await take(pairs(request.rawHeaders), body)
    }
  } catch {
    // The sender broke off: there is nobody to answer.
    response.destroy()
    return
  }
  const { status, text, headers = {} } = answer
  // What was not read of a body would be taken for the next request.
  response.writeHead(status, status === 413 ? { ...headers, connection: 'close' } : headers)
  response.end(text)
}

function pairs(raw: readonly string[]): HeaderPair[] {
  return Array.from({ length: raw.length / 2 }, (_, i) => [raw[2 * i]!, raw[2 * i + 1]!] as const)
}
