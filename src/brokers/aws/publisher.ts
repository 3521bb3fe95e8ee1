import { createSharedAbort } from '../../pause.ts'
import { createEncoder } from '../../publishing/format.ts'
import {
  type Message,
  type Publisher,
  type PublishResult,
  brokerUnavailable,
  publishTimeout,
  unprepared,
} from '../../publishing/publisher.ts'
import { type Abortion, whenAborted } from '../abort.ts'
import { createLanes } from '../lanes.ts'
import { type AwsMeaning, codeOf, meaningOfError } from './answers.ts'
import { type Entry, toBatches, toEntry } from './entries.ts'
import { type Places, nameOf } from './names.ts'
import { type FailedEntry, meaningOfEntry, toFailure } from './outcomes.ts'

/** What AWS answered to a batch, by the `Id` of each entry. */
export interface BatchAnswer {
  readonly Successful?: readonly { Id?: string | undefined; MessageId?: string | undefined }[] | undefined
  readonly Failed?: readonly (FailedEntry & { Id?: string | undefined })[] | undefined
}

/** One of the two services. */
export interface Service {
  /** For receipts: `sqs`, `sns`. */
  readonly type: string
  /** What messages are sent to: `queue`, `topic`. */
  readonly kind: string
  /** Sends a batch whose entries have their number in it as `Id`. Rejects with an error of the SDK. */
  send(place: string, entries: readonly Entry[], signal: AbortSignal): Promise<BatchAnswer>
  region(): Promise<string>
  close(): void
}

export interface ServiceSettings {
  readonly maxMessageBytes: number
  readonly connections: number
  readonly cloudEventsSource: string
}

type Settle = (index: number, result: PublishResult) => void

/** Queues or topics that are remembered as working. An outbox that invents names must not fill the memory. */
const rememberedPlaces = 1000

/** The publisher for SQS and for SNS: what both have in common is nearly all. */
export function createAwsPublisher(
  name: string,
  service: Service,
  places: Places,
  settings: ServiceSettings,
): Publisher {
  const { maxMessageBytes, connections, cloudEventsSource } = settings
  const encoder = createEncoder({ binding: 'sqs', cloudEventsSource })
  const lanes = createLanes(connections)
  const closing = createSharedAbort()
  const working = new Set<string>()

  function prepare(messages: readonly Message[], settle: Settle): Entry[] {
    return messages.flatMap((message, index) => {
      try {
        return [toEntry(message, index, { places, encoder, maxMessageBytes })]
      } catch (error) {
        settle(index, unprepared(error))
        return []
      }
    })
  }

  async function deliver(batch: readonly Entry[], call: Abortion, settle: Settle): Promise<void> {
    const leave = await lanes.enter(call)
    if (leave === null) {
      const error = publishTimeout(`${name}: not sent, the call ended before a connection was free`)
      for (const { index } of batch) settle(index, { status: 'retry', error, afterMs: 0 })
      return
    }
    const alone = await attempt(batch, call, settle).finally(leave)
    await Promise.all(alone.map((entry) => deliver([entry], call, settle)))
  }

  /** Sends a batch. Answers with the entries that are to be sent again, each alone. */
  async function attempt(batch: readonly Entry[], call: Abortion, settle: Settle): Promise<readonly Entry[]> {
    try {
      const answer = await request(batch, call)
      if (answer !== undefined) {
        await conclude(batch, answer, settle)
        return []
      }
      const error = publishTimeout(`${name} did not answer in time`)
      for (const { index } of batch) settle(index, { status: 'retry', error })
    } catch (error) {
      const { meaning, code } = meaningOfError(error)
      // One message can make AWS refuse all of them, and it does not say which one it was.
      if (batch.length > 1 && (meaning === 'message' || meaning === 'unknown')) return batch
      await fail(batch, meaning, code, error, settle)
    }
    return []
  }

  /** The answer, or undefined when the call is given up first: the SDK may sleep between two tries. */
  async function request(batch: readonly Entry[], call: Abortion): Promise<BatchAnswer | undefined> {
    const controller = new AbortController()
    const forget = call.onAbort(() => controller.abort())
    const sent = service.send(batch[0]!.place, batch, controller.signal)
    sent.catch(() => undefined)
    try {
      return await Promise.race([sent, call.promise])
    } catch (error) {
      if (call.aborted) return undefined
      throw error
    } finally {
      forget()
    }
  }

  async function conclude(
    batch: readonly Entry[],
    { Successful = [], Failed = [] }: BatchAnswer,
    settle: Settle,
  ): Promise<void> {
    const { place } = batch[0]!
    const left = new Map(batch.map((entry, number) => [String(number), entry]))
    const take = (Id = '') => {
      const entry = left.get(Id)
      left.delete(Id)
      return entry
    }
    if (Successful.length > 0) {
      if (working.size >= rememberedPlaces) working.clear()
      working.add(place)
    }
    for (const { Id, MessageId = '' } of Successful) {
      const entry = take(Id)
      const receipt = `${service.type}:${nameOf(place)}/${MessageId}`
      if (entry !== undefined) settle(entry.index, { status: 'published', receipt })
    }
    for (const failed of Failed) {
      const entry = take(failed.Id)
      const { Code = 'unknown' } = failed
      if (entry !== undefined) await fail([entry], meaningOfEntry(failed), codeOf(Code), failed, settle)
    }
    const unanswered = publishTimeout(`${name}: the answer does not say what became of this message`)
    for (const { index } of left.values()) settle(index, { status: 'retry', error: unanswered })
  }

  async function fail(
    batch: readonly Entry[],
    meaning: AwsMeaning,
    code: string,
    cause: unknown,
    settle: Settle,
  ): Promise<void> {
    const { place } = batch[0]!
    if (meaning === 'missing' || meaning === 'denied') working.delete(place)
    const region = await service.region().catch(() => 'an unknown region')
    const othersWork = working.size > 0
    const result = toFailure(meaning, code, cause, { name, kind: service.kind, place, region, othersWork })
    for (const { index } of batch) settle(index, result)
  }

  return {
    name,
    capabilities: {
      // Entries of a batch fail one by one, also in a FIFO queue: the one behind a failed one would overtake it.
      ordering: 'per-call',
      deduplication: places.fifo,
      maxMessageBytes,
      maxBatchSize: connections * 10,
    },
    observe: (observer) => encoder.observe(observer),
    async publish(messages, { signal, onPublished }) {
      if (closing.signal.aborted) throw brokerUnavailable(`${name} is closed`)
      const results: PublishResult[] = Array.from({ length: messages.length })
      const settle: Settle = (index, result) => {
        results[index] = result
        if (result.status === 'published') onPublished?.(index, result.receipt)
      }
      const call = whenAborted(signal, closing.signal)
      try {
        const batches = toBatches(prepare(messages, settle), maxMessageBytes)
        await Promise.all(batches.map((batch) => deliver(batch, call, settle)))
        return results
      } finally {
        call.release()
      }
    },
    async close() {
      closing.abort()
      service.close()
    },
  }
}
