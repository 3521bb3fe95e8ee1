import { createSharedAbort, createSignal, pause } from '../../pause.ts'
import type { DeliveryAnswer, Receiver } from '../../publishing/source.ts'
import { whenAborted } from '../abort.ts'
import type { Reading, Taken } from './reading.ts'

export interface SessionOptions<M extends Taken> {
  readonly reading: Reading<M>
  readonly receive: Receiver
  readonly prefetch: number
  /** Everything that is taken and not acknowledged: at the beginning what the session before had. */
  readonly hand: Set<M>
  /** Nothing new is taken from then on; what is in hand is answered. */
  readonly stopping: AbortSignal
  /** Answers are not waited for any more. */
  readonly over: AbortSignal
  /** Messages may come now, or when another process has stopped reading. */
  readonly begins: () => void
  /** The broker has delivered, or has nothing to deliver. */
  readonly works: () => void
}

/** One that stands by looks so often whether it may read. */
const standByMs = 1_000

/**
 * Reads through one connection, until the stop or until another process reads; rejects when it cannot go on. Then all
 * that is in hand is lost and comes again: the consumer finds out what was handled meanwhile.
 */
export async function runSession<M extends Taken>(options: SessionOptions<M>): Promise<void> {
  const { reading, receive, prefetch, hand, stopping, over, begins, works } = options
  const { lease, keepMs } = reading
  const lost = createSharedAbort()
  const keeping = new AbortController()
  const ended = whenAborted(over)
  const changed = createSignal()
  /** Until then nobody else has what is in hand, `performance.now()`. */
  let oursUntil = 0
  let unanswered = 0
  let fail!: (error: unknown) => void
  const failed = new Promise<never>((_, reject) => (fail = reject))

  const isOurs = () => !lost.signal.aborted && performance.now() < oursUntil

  /** False when it was stopped before it might read. */
  async function mayRead(): Promise<boolean> {
    for (;;) {
      const asked = performance.now()
      const has = lease === null || (await lease.acquire())
      begins()
      oursUntil = asked + keepMs
      if (stopping.aborted || has) return has
      works()
      // It is the other one's.
      hand.clear()
      await pause(standByMs, stopping)
    }
  }

  async function read(): Promise<void> {
    while (isOurs() && !stopping.aborted) {
      const room = prefetch - hand.size
      if (room <= 0) {
        await changed.wait(1000)
        continue
      }
      const messages = await reading.take(room, stopping)
      works()
      if (!isOurs()) return
      for (const message of messages) {
        hand.add(message)
        if (!stopping.aborted) void deliver(message)
      }
    }
    while (unanswered > 0 && isOurs()) await changed.wait(1000)
  }

  async function deliver(message: M): Promise<void> {
    unanswered++
    const answer = await answerTo(message)
    try {
      if (answer.status === 'done' && !lost.signal.aborted) {
        await reading.acknowledge(message)
        hand.delete(message)
      }
    } catch (error) {
      fail(error)
    }
    unanswered--
    changed.notify()
  }

  async function answerTo({ delivery }: M): Promise<DeliveryAnswer> {
    let answer = await receive({ ...delivery, lost: lost.signal })
    while (answer.status === 'again') {
      await pause(answer.afterMs, lost.signal, stopping)
      if (lost.signal.aborted || stopping.aborted) break
      answer = await receive({ ...delivery, redelivered: true, lost: lost.signal })
    }
    return answer
  }

  /** Ends when the lease is another's, and with {@link keeping} after what is under way. */
  async function keep(): Promise<void> {
    for (;;) {
      await pause(keepMs / 3, keeping.signal)
      if (keeping.signal.aborted) return
      const asked = performance.now()
      const silence = pause(oursUntil - asked, lost.signal).then(() => 'silence' as const)
      const outcome = await Promise.race([renew(), silence])
      if (outcome === 'silence') throw new Error(`the broker has not answered for ${keepMs} ms`)
      oursUntil = outcome === 'lost' ? 0 : asked + keepMs
      if (outcome === 'lost') return
    }
  }

  async function renew(): Promise<'kept' | 'lost'> {
    if (!isOurs()) return 'lost'
    if (lease !== null && !(await lease.renew())) return 'lost'
    await reading.keep([...hand])
    return 'kept'
  }

  async function work(): Promise<void> {
    const left = [...hand]
    hand.clear()
    const kept = keep()
    await Promise.race([reading.giveBack(left).then(read), kept, failed, ended.promise])
    if (unanswered > 0 || !isOurs()) return
    keeping.abort()
    await kept
    // Not sooner: it would come again to this process, which takes nothing any more.
    await reading.giveBack([...hand])
    await lease?.release()
  }

  // Nobody may be waiting for these any more.
  failed.catch(() => undefined)
  try {
    if (await mayRead()) await work()
  } finally {
    lost.abort()
    keeping.abort()
    ended.release()
    await reading.close()
  }
}
