import { beforeEach, describe, expect, test } from 'vitest'
import { publishFailed } from '../../src/publishing/publisher.ts'
import { insertEvents, readEvents, testRelay } from '../relay/harness.ts'
import { recordingPublisher } from '../relay/recording-publisher.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { eventually } from './kit.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})

function silence(): never {
  throw new Error('no answer for you')
}

const parts = ['message', 'name', 'code', 'details', 'cause'] as const
/** An error of which some part cannot be read. */
const unreadable = (part: string) => Object.defineProperty(publishFailed('odd'), part, { get: silence })
/** An error of which nothing can be read. */
const mute = () => new Proxy(publishFailed('odd'), { get: silence, getPrototypeOf: silence })

const receipt = (value: unknown) => ({ status: 'published', receipt: value })
const pause = (afterMs: unknown) => ({ status: 'retry', error: publishFailed('not now'), afterMs })
const failure = (error: unknown) => ({ status: 'retry', error })

const answers: readonly (readonly [what: string, answer: unknown])[] = [
  ['a receipt that is a number', receipt(42)],
  ['a receipt that is null', receipt(null)],
  ['a receipt that is an object', receipt({ offset: 1n })],
  ['a receipt that is a symbol', receipt(Symbol('receipt'))],
  ['a receipt with U+0000', receipt('a\u0000b')],
  ['a receipt of five megabytes', receipt('x'.repeat(5_000_000))],
  ['a pause of NaN', pause(NaN)],
  ['a pause without end', pause(Infinity)],
  ['a pause of 1e300', pause(1e300)],
  ['a pause of -1e300', pause(-1e300)],
  ['a pause that is a text', pause('soon')],
  ['a pause that is a bigint', pause(10n)],
  ['a pause that is an object', pause({})],
  ['a failure without an error', { status: 'retry' }],
  ['an error that is null', failure(null)],
  ...parts.map((part) => [`an error whose ${part} cannot be read`, failure(unreadable(part))] as const),
  ['an error that cannot be read', failure(mute())],
]

describe('what a publisher gives that is not what its type says', () => {
  test.for(answers)('%s, as answer: that event is settled, and all others go on', async ([, answer]) => {
    const bus = recordingPublisher({
      behave: ({ aggregateId }) => (aggregateId === 'odd' ? answer : receipt('fine')) as never,
    })
    await insertEvents(database, [{ aggregate: 'odd' }, { aggregate: 'other' }])
    const relay = testRelay(database, { destinations: { bus }, maxAttempts: 1_000 })
    await relay.start()
    await eventually('it is settled', async () => {
      const [{ published, last_error: error }] = (await readEvents(database)) as [never]
      return published || error !== null
    })
    // Also those that come later.
    await insertEvents(database, [{ aggregate: 'later' }])
    await eventually('the others are marked', async () => {
      const [, ...others] = await readEvents(database)
      return others.every(({ published }) => published)
    })
    expect(relay.events('database.down')).toEqual([])
    expect(await relay.stop({ graceMs: 3_000 })).toEqual({ clean: true })
  })

  test.for([...parts.map((part) => [part, () => unreadable(part)] as const), ['whole', mute] as const])(
    'an error whose %s cannot be read, thrown: that event waits, and all others go on',
    async ([, make]) => {
      const bus = recordingPublisher({
        onCall(messages) {
          if (messages.some(({ aggregateId }) => aggregateId === 'odd')) throw make()
        },
      })
      await insertEvents(database, [{ aggregate: 'odd' }, { aggregate: 'other' }])
      const relay = testRelay(database, { destinations: { bus } })
      await relay.start()
      await bus.untilDelivered(1)
      await insertEvents(database, [{ aggregate: 'later' }])
      await bus.untilDelivered(2)
      expect(await relay.stop({ graceMs: 3_000 })).toEqual({ clean: true })
      expect((await readEvents(database)).map(({ published }) => published)).toEqual([false, true, true])
    },
  )
})
