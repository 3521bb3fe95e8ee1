import type { IncomingMessage, ServerResponse } from 'node:http'
import { createListener, readBody } from '../support/listener.ts'

/** A delivery that the consumer has acknowledged. */
export interface Acknowledged {
  /** The event, also where it is a deliberate replay of it. */
  eventId: string
  aggregateId: string
}

export interface NetworkOptions {
  port: number
  /** Where the consumer listens. */
  target: string
  onAcknowledged(delivery: Acknowledged): void
}

interface Hop extends Acknowledged {
  headers: Record<string, string>
  body: Buffer
}

/** Does something to the deliveries of one note, and answers with an HTTP status; `pass` brings it to the consumer. */
type Trick = (pass: () => Promise<number>) => Promise<number>

const own = new Set(['host', 'connection', 'content-length', 'transfer-encoding', 'keep-alive'])

/** What lies between the relay and the consumer. It passes everything on, and can be told to do harm. */
export function createNetwork({ port, target, onAcknowledged }: NetworkOptions) {
  const tricks = new Map<string, Trick>()
  const arrivals = new Map<string, number>()
  const listener = createListener(port, (request, response) => {
    handle(request, response).catch(() => response.destroy())
  })

  async function forward({ headers, body, eventId, aggregateId }: Hop): Promise<number> {
    const { status } = await fetch(target, { method: 'POST', headers, body: new Uint8Array(body) })
    if (status < 300) {
      arrivals.set(eventId, (arrivals.get(eventId) ?? 0) + 1)
      onAcknowledged({ eventId, aggregateId })
    }
    return status
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const hop = await hopOf(request)
    const trick = tricks.get(hop.aggregateId) ?? ((pass) => pass())
    const status = await trick(() => forward(hop)).catch(() => 502)
    response.writeHead(status).end()
  }

  /** For the next delivery of this note; resolves when it was played. */
  function playOnce(aggregateId: string, trick: Trick, patienceMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        tricks.delete(aggregateId)
        reject(new Error(`within ${patienceMs / 1000} s the relay handed nothing of ${aggregateId} over`))
      }, patienceMs)
      tricks.set(aggregateId, (pass) => {
        clearTimeout(timer)
        tricks.delete(aggregateId)
        return trick(pass).finally(resolve)
      })
    })
  }

  return {
    url: `http://127.0.0.1:${port}/events`,
    /** From now on, for every delivery of this note. */
    play: (aggregateId: string, trick: Trick) => void tricks.set(aggregateId, trick),
    playOnce,
    /** How often the consumer has acknowledged this event. */
    arrived: (eventId: string) => arrivals.get(eventId) ?? 0,
    open: listener.open,
    close: listener.close,
  }
}

export type Network = ReturnType<typeof createNetwork>

async function hopOf(request: IncomingMessage): Promise<Hop> {
  const headers = Object.fromEntries(
    Object.entries(request.headers).filter(([name]) => !own.has(name)),
  ) as Record<string, string>
  return {
    headers,
    body: await readBody(request),
    // A deliberate replay has ".r1" after the event's id.
    eventId: headers['webhook-id']!.replace(/\.r\d+$/, ''),
    aggregateId: decodeURIComponent(headers['x-waybill-aggregate-id']!),
  }
}
