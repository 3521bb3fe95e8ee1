import { setTimeout as pause } from 'node:timers/promises'
import { describeError } from '../errors.ts'
import { resolveOptions } from '../options.ts'
import { createSharedAbort } from '../pause.ts'
import { brokerUnavailable } from '../publishing/publisher.ts'
import type { Receiver, Source, SourceObserver } from '../publishing/source.ts'
import { whenAborted } from './abort.ts'
import { loadDependency } from './dependency.ts'
import { type Member, createMember } from './kafka/member.ts'
import { failureOf } from './kafka/outcomes.ts'
import type { KafkaLibrary } from './kafka/session.ts'
import { type KafkaSourceOptions, kafkaSourceOptions } from './kafka-options.ts'

/** Pause before another member is made, in milliseconds; doubled each time up to the longest. */
const firstPauseMs = 200
const longestPauseMs = 5_000

/**
 * Reads topics of Apache Kafka as a member of a consumer group, for `createConsumer` of `waybill/consumer`. The offset
 * is committed behind messages that are done, never beyond one that is not. Needs the package `kafkajs`.
 *
 * @throws CONFIGURATION_INVALID; `start` rejects with DEPENDENCY_MISSING, and with BROKER_UNAVAILABLE when the login
 *   or the group is refused
 */
export function kafkaSource(options: KafkaSourceOptions & { name?: string }): Source {
  const { name = 'kafka', ...rest } = options
  const settings = resolveOptions(kafkaSourceOptions, rest, { path: name })
  const stopping = createSharedAbort()
  const stopped = whenAborted(stopping.signal)
  let member: Member | undefined
  let running: Promise<void> | undefined
  let leaving: Promise<void> | undefined

  const unavailable = (cause: unknown): Error =>
    brokerUnavailable(`${name}: ${describeError(cause, 300)}`, { cause })

  /** One member after the other, until the end. `onFirst` is told what became of the first, once. */
  async function run(
    create: () => Member,
    observer: SourceObserver,
    onFirst: (refused?: Error) => void,
  ): Promise<void> {
    let isDown = false
    let isFirst = true
    for (let pauseMs = firstPauseMs; !stopped.aborted; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
      member = create()
      const error = await joinedOrFailed(member)
      if (stopped.aborted) return
      if (error === undefined) {
        pauseMs = firstPauseMs
        if (isDown) observer.up()
        isDown = false
        onFirst()
      } else if (isFirst && failureOf(error) === 'cluster') {
        member.destroy()
        return onFirst(unavailable(error))
      }
      const reason = error ?? (await Promise.race([member.failed, stopped.promise]))
      if (stopped.aborted) return
      member.destroy()
      if (!isDown) observer.down(unavailable(reason))
      isDown = true
      isFirst = false
      onFirst()
      await pause(pauseMs, undefined, { signal: stopping.signal }).catch(() => undefined)
    }
  }

  async function joinedOrFailed({ joined }: Member): Promise<unknown> {
    try {
      await Promise.race([joined, stopped.promise])
      return undefined
    } catch (error) {
      return error ?? new Error('it could not join the group')
    }
  }

  async function start(receive: Receiver, observer: SourceObserver): Promise<void> {
    const library: KafkaLibrary = await loadDependency('kafka', 'kafkajs', () => import('kafkajs'))
    if (stopped.aborted) return
    const first = new Promise<Error | undefined>((resolve) => {
      running = run(() => createMember(library, settings, receive), observer, resolve)
    })
    const refused = await Promise.race([first, stopped.promise])
    if (refused !== undefined) throw refused
  }

  return {
    name,
    subscription: `kafka:group=${settings.group} topics=${settings.topics.toSorted().join(',')}`,
    capabilities: { ordering: 'aggregate', holding: true },
    start: (receive, { observer }) => start(receive, observer),
    stop({ graceMs }) {
      stopping.abort()
      leaving ??= (async () => {
        await member?.leave(graceMs)
        await running
      })()
      return leaving
    },
  }
}
