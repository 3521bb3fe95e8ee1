import type { JetStreamClient, JetStreamManager } from '@nats-io/jetstream'
import type { Lease } from '../reading/reading.ts'

/** Who reads what, one message each, which ends by itself. */
const leases = 'WAYBILL_READERS'
const nobody = ''
const wrongLastSequence = 10_071
const streamNotFound = 10_059

/** One for all leases of the account, since it is the stream's. */
export const natsLeaseMs = 15_000

/** Makes the stream with the leases of the account, with as many replicas as the one that is read. */
export async function makeLeases(manager: JetStreamManager, stream: string): Promise<void> {
  try {
    await manager.streams.info(leases)
  } catch (error) {
    if ((error as { code?: unknown }).code !== streamNotFound) throw error
    const nanos = natsLeaseMs * 1_000_000
    const { config } = await manager.streams.info(stream)
    await manager.streams.add({
      name: leases,
      subjects: ['waybill.readers.>'],
      storage: 'memory',
      num_replicas: config.num_replicas,
      max_msgs_per_subject: 1,
      max_age: nanos,
      duplicate_window: nanos,
    })
  }
}

/** @param owner tells this process from all others, over all its connections */
export function natsLease(
  jetstream: JetStreamClient,
  manager: JetStreamManager,
  { stream, consumer, owner }: { stream: string; consumer: string; owner: string },
): Lease {
  // Names of streams and consumers have no dots.
  const subject = `waybill.readers.${stream}.${consumer}`
  /** The message that makes this process the reader. */
  let held = 0

  /** Publishes only behind that message. */
  async function follow(sequence: number, reader = owner): Promise<boolean> {
    try {
      const { seq } = await jetstream.publish(subject, reader, { expect: { lastSubjectSequence: sequence } })
      held = seq
      return true
    } catch (error) {
      if ((error as { code?: unknown }).code !== wrongLastSequence) throw error
      return false
    }
  }

  return {
    async acquire() {
      const last = await manager.streams.getMessage(leases, { last_by_subj: subject })
      if (last === null) return follow(0)
      return [owner, nobody].includes(last.string()) && follow(last.seq)
    },
    renew: () => follow(held),
    async release() {
      await follow(held, nobody)
    },
  }
}
