import { cleanText } from '../errors.ts'
import type { HeaderPair } from '../publishing/headers.ts'
import type { Delivery } from '../publishing/source.ts'
import type { InboxStatements } from './statements.ts'
import type { Store } from './store.ts'

/** What is known of a message beside its id; a message that is no event has no more than that. */
export interface KeptFacts {
  readonly eventId: string
  readonly type?: string
  readonly aggregateType?: string
  readonly aggregateId?: string
  readonly revision?: bigint | null
  readonly replay?: number | null
}

export interface KeptMessage {
  readonly eventId: string
  readonly delivery: Delivery
  readonly attempts: number
}

/** Keeps what is not finished: counts of tries, dead letters, parked events, each with its message. */
export interface Keeper {
  /** A try begins that may end the process. Answers what is on record, this try included among `crashes`. */
  noteTry(eventId: string): Promise<{ attempts: number; crashes: number }>
  /** The noted try ended without a result, and without counting. */
  takeBackNote(eventId: string): Promise<void>
  /** Where the event is handled, nothing of its tries is of interest any more. */
  forget(eventId: string): Promise<void>
  /** Answers the number of counted failures. */
  recordFailure(facts: KeptFacts, error: string): Promise<number>
  /** False when another copy was applied meanwhile: then there is nothing to keep. */
  bury(facts: KeptFacts, delivery: Delivery, failure: { error: string; attempts: number }): Promise<boolean>
  /** Dead letters that somebody put back. */
  toRetry(most: number): Promise<readonly KeptMessage[]>
}

export function createKeeper<Tx>(store: Store<Tx>, statements: InboxStatements, consumer: string): Keeper {
  const query = (name: keyof InboxStatements, ...params: string[]) =>
    store.query(statements[name], [consumer, ...params])

  return {
    async noteTry(eventId) {
      const [row] = await query('noteTry', eventId)
      return { attempts: Number(row?.['attempts']), crashes: Number(row?.['crashes']) }
    },
    async takeBackNote(eventId) {
      await query('takeBackNote', eventId)
    },
    async forget(eventId) {
      await query('forget', eventId)
    },
    async recordFailure({ eventId, type = '', aggregateType = '', aggregateId = '', revision }, error) {
      const params = [eventId, type, aggregateType, aggregateId, revision?.toString() ?? '', error]
      const [row] = await query('recordFailure', ...params)
      return Number(row?.['attempts'])
    },
    async bury(facts, delivery, { error, attempts }) {
      const kept = await query('keep', ...keepParams(facts, delivery, { error, attempts, state: 'dead' }))
      return kept.length > 0
    },
    async toRetry(most) {
      return (await query('toRetry', String(most))).map(toKeptMessage)
    },
  }
}

/** The parameters of `keep` behind the consumer. */
export function keepParams(
  facts: KeptFacts,
  delivery: Delivery,
  how: { error: string; attempts: number; state: 'dead' | 'parked'; projection?: string },
): string[] {
  const { eventId, type = '', aggregateType = '', aggregateId = '', revision, replay } = facts
  return [
    ...[eventId, how.state === 'dead' ? 'rejected' : 'parked', type, aggregateType, aggregateId],
    ...[revision?.toString() ?? '', how.error, cleanText(delivery.origin, 300), describeDelivery(delivery)],
    ...[Buffer.from(delivery.body).toString('base64'), String(how.attempts), String(replay ?? 0), how.state],
    how.projection ?? '',
  ]
}

function describeDelivery({ binding, headers, contentType, topic, key, origin }: Delivery): string {
  return JSON.stringify({ binding, headers, contentType, topic, key, origin })
}

export function toKeptMessage(row: Record<string, unknown>): KeptMessage {
  const described = JSON.parse(row['delivery'] as string) as Omit<Delivery, 'body' | 'redelivered'> & {
    headers: HeaderPair[]
  }
  return {
    eventId: row['event_id'] as string,
    // Whatever happened to the process that had it is not known: the try is noted first.
    delivery: { ...described, body: Buffer.from(row['body'] as string, 'base64'), redelivered: true },
    attempts: Number(row['attempts']),
  }
}
