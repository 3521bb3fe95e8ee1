import type { Abortion } from '../abort.ts'
import type { SendFailure, Sent } from './delivery.ts'
import type { Outgoing } from './groups.ts'
import { failureOf } from './outcomes.ts'
import type { Session, SessionMaker, TopicRecords } from './session.ts'

/** As many producers as there are calls at once, each with one call at a time. */
export interface Pool {
  send(group: readonly Outgoing[], call: Abortion): Promise<Sent>
  /** Connects, and keeps the connection for later. Rejects with the error. */
  check(call: Abortion): Promise<void>
  /** Closes what is idle in order. What is under way must be aborted by its caller. */
  close(): Promise<void>
}

export function createPool(maker: SessionMaker): Pool {
  const idle: Session[] = []
  let closed = false

  async function open(call: Abortion): Promise<Session> {
    const { session, ready } = maker.open()
    try {
      const outcome = await Promise.race([ready.then(() => 'ready' as const), call.promise])
      if (outcome === undefined) throw new NoConnection('no connection in time')
      return session
    } catch (error) {
      session.destroy()
      throw error
    }
  }

  async function giveBack(session: Session): Promise<void> {
    if (closed) await session.close()
    else idle.push(session)
  }

  return {
    async send(group, call) {
      if (call.aborted) return 'aborted'
      let session: Session
      try {
        session = idle.pop() ?? (await open(call))
      } catch (error) {
        // Nothing has been sent yet, so nothing can be lost.
        const sent = toSent(error)
        return sent.failure === 'lost' ? { ...sent, failure: 'away' } : sent
      }
      try {
        const placed = await Promise.race([session.send(topicsOf(group)), call.promise])
        if (placed === undefined) {
          session.destroy()
          return 'aborted'
        }
        await giveBack(session)
        return { placed }
      } catch (error) {
        session.destroy()
        const sent = toSent(error)
        // What is idle was connected to the same brokers.
        if (sent.failure === 'away' || sent.failure === 'lost')
          idle.splice(0).forEach((other) => other.destroy())
        return sent
      }
    },
    async check(call) {
      await giveBack(await open(call))
    },
    async close() {
      closed = true
      await Promise.all(idle.splice(0).map((session) => session.close()))
    },
  }
}

class NoConnection extends Error {}

/** @throws the error when Kafka has nothing to do with it */
function toSent(error: unknown): SendFailure {
  const failure = error instanceof NoConnection ? 'away' : failureOf(error)
  if (failure === undefined) throw error
  return { error, failure }
}

function topicsOf(group: readonly Outgoing[]): TopicRecords[] {
  const topics = new Map<string, TopicRecords>()
  for (const { topic, record } of group) {
    // The last try may have been in another cluster, with fewer partitions.
    if (record.partition !== undefined) delete record.partition
    const known = topics.get(topic)
    if (known === undefined) topics.set(topic, { topic, messages: [record] })
    else known.messages.push(record)
  }
  return [...topics.values()]
}
