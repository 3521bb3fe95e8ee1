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

export interface Burial {
  readonly error: string
  readonly attempts: number
  /** The projection that was to be rebuilt; a dead letter that is put back is to do that again. */
  readonly projection?: string | undefined
}

export interface KeptMessage {
  readonly eventId: string
  readonly delivery: Delivery
  readonly attempts: number
  /** The body is a `RebuildMessage`. */
  readonly isRebuild: boolean
}

/** Keeps what is not finished: counts of tries, dead letters, parked events, each with its message. */
export interface Keeper {
  /** A try begins that may end the process. Answers what is on record, this try included among `crashes`. */
  noteTry(eventId: string): Promise<{ attempts: number; crashes: number }>
  /** The noted try ended without a result, and without counting. */
  takeBackNote(eventId: string): Promise<void>
  /** Where the event is handled, nothing of its tries is of interest any more. */
  forget(eventId: string): Promise<void>
  /** The same for a rebuild. */
  forgetRebuild(eventId: string): Promise<void>
  /** Answers the number of counted failures. */
  recordFailure(facts: KeptFacts, error: string): Promise<number>
  /** False when another copy was applied meanwhile: then there is nothing to keep. */
  bury(facts: KeptFacts, delivery: Delivery, failure: Burial): Promise<boolean>
  /** Dead letters that somebody put back. */
  toRetry(most: number): Promise<readonly KeptMessage[]>
  /** What waits for a projection to be rebuilt. */
  toRebuild(most: number): Promise<readonly KeptMessage[]>
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
    async forgetRebuild(eventId) {
      await query('forgetRebuild', eventId)
    },
    async recordFailure({ eventId, type = '', aggregateType = '', aggregateId = '', revision }, error) {
      const params = [eventId, type, aggregateType, aggregateId, revision?.toString() ?? '', error]
      const [row] = await query('recordFailure', ...params)
      return Number(row?.['attempts'])
    },
    async bury(facts, delivery, failure) {
      const kept = await query('keep', ...keepParams(facts, delivery, { ...failure, state: 'dead' }))
      return kept.length > 0
    },
    async toRetry(most) {
      return (await query('toRetry', String(most))).map(toAskedMessage)
    },
    async toRebuild(most) {
      return (await query('toRebuild', String(most))).map(toAskedMessage)
    },
  }
}

/** The parameters of `keep` behind the consumer. */
export function keepParams(
  facts: KeptFacts,
  delivery: Delivery,
  how: Burial & { readonly state: 'dead' | 'parked' },
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
    isRebuild: false,
  }
}

/** A parked event has a projection too, the one that it waits in: this is about the others. */
function toAskedMessage(row: Record<string, unknown>): KeptMessage {
  return { ...toKeptMessage(row), isRebuild: row['projection'] !== null }
}
