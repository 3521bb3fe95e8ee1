import type { Msg } from '@nats-io/transport-node'
import type { Taken } from '../reading/reading.ts'

export interface TakenMessage extends Taken {
  /** Its place in the stream. */
  readonly sequence: number
  /** Where its answer goes. */
  readonly reply: string
}

export function toTakenMessage(message: Msg): TakenMessage {
  const { reply = '', subject } = message
  const { stream, sequence, count } = placeOf(reply)
  const headers = [...(message.headers ?? [])].flatMap(([name, values]) =>
    values.map((value) => [name, value] as const),
  )
  return {
    sequence,
    reply,
    delivery: {
      ...{ binding: 'nats', body: message.data, headers, contentType: null, topic: subject, key: null },
      ...{ origin: `nats:${stream}@${sequence}`, redelivered: count > 1 },
    },
  }
}

/**
 * `$JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.<…>`, in newer servers with a domain and an account before the
 * stream.
 */
function placeOf(reply: string): { stream: string; sequence: number; count: number } {
  const parts = reply.split('.')
  const [stream = '', , count, sequence] = parts.slice(parts.length === 9 ? 2 : 4)
  return { stream, sequence: Number(sequence), count: Number(count) }
}
