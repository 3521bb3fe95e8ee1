import assert from 'node:assert/strict'
import type { DeliveryAnswer } from '../publishing/source.ts'
import type { SourceBench, SourceFeatures } from './source-bench.ts'
import { again, done, firstArrivals, takeInHand, until, withHand } from './source-hand.ts'
import { delicateBodies, testMessage } from './test-message.ts'

/** One rule of the contract. */
export interface SourceCheck {
  readonly name: string
  readonly applies: (features: SourceFeatures) => boolean
  /** Rejects with an AssertionError when the rule is broken. */
  readonly run: (bench: SourceBench, features: SourceFeatures) => Promise<void>
}

const always = (): boolean => true
const several = (count: number, overrides: Parameters<typeof testMessage>[0] = {}) =>
  Array.from({ length: count }, () => testMessage(overrides))
/** Largest body that every broker takes. */
const modest = 100_000

/** Every rule of the contract, one check each. */
export const sourceChecks: readonly SourceCheck[] = [
  {
    name: 'says truly what it can do, and names what it reads',
    applies: always,
    async run(bench, { ordering, holding }) {
      const [one, two] = [await bench.create(), await bench.create()]
      assert.deepEqual(one.capabilities, { ordering, holding })
      assert.equal(one.subscription, two.subscription, 'two sources of one service must read the same')
      assert.ok(one.subscription !== '', 'subscription is null or a name')
      await Promise.all([one.stop({ graceMs: 1_000 }), two.stop({ graceMs: 1_000 })])
    },
  },
  {
    name: 'hands over every payload byte for byte, with everything that the event has',
    applies: always,
    run: (bench, { headers }) =>
      withHand(
        bench,
        () => done,
        async (hand) => {
          const own = headers ? { 'x-tenant': 'nörd 5%', traceparent: '00-1-2-01' } : {}
          const messages = delicateBodies
            .filter((body) => body.length <= modest)
            .map((body) =>
              testMessage({ body, revision: '9007199254740993', operationId: 'op 1', headers: own }),
            )
          await bench.send(messages)
          await hand.arrived(messages)
          for (const message of messages) {
            const { event, delivery } = hand.of(message)[0]!
            assert.equal(event.body, message.body)
            assert.equal(event.type, message.eventType)
            assert.deepEqual(
              [event.aggregateType, event.aggregateId],
              [message.aggregateType, message.aggregateId],
            )
            assert.equal(event.revision, 9007199254740993n)
            assert.equal(event.operationId, 'op 1')
            assert.equal(event.createdAt, message.createdAt)
            if (headers) assert.deepEqual({ ...event.headers }, own)
            assert.ok(
              delivery.origin.length > 0 && delivery.origin.length <= 1_000,
              'origin names the message',
            )
          }
        },
      ),
  },
  {
    name: 'hands over the number of a deliberate replay, under the same event id',
    applies: always,
    run: (bench) =>
      withHand(
        bench,
        () => done,
        async (hand) => {
          const first = testMessage()
          await bench.send([first])
          await hand.arrived([first])
          await bench.send([{ ...first, messageId: `${first.eventId}.r1`, replay: 1 }])
          await until(bench, 'that the replay arrives', () =>
            hand.of(first).some(({ event }) => event.replay === 1),
          )
        },
      ),
  },
  {
    name: 'does not wait for the answer to one before it hands over others',
    applies: always,
    async run(bench) {
      let answerAll!: (answer: DeliveryAnswer) => void
      const answer = new Promise<DeliveryAnswer>((resolve) => (answerAll = resolve))
      await withHand(
        bench,
        () => answer,
        async (hand) => {
          const messages = several(10)
          await bench.send(messages)
          await hand.arrived(messages).finally(() => answerAll(done))
        },
      )
    },
  },
  {
    name: 'hands over the messages of each aggregate in the order in which they were sent',
    applies: ({ ordering }) => ordering === 'aggregate',
    run: (bench) =>
      withHand(
        bench,
        () => done,
        async (hand) => {
          const run = testMessage().eventId
          const messages = Array.from({ length: 100 }, (_, i) =>
            testMessage({ aggregateId: `${run}-${i % 5}` }),
          )
          await bench.send(messages)
          await hand.arrived(messages)
          for (let i = 0; i < 5; i++) {
            const sent = messages.filter(({ aggregateId }) => aggregateId === `${run}-${i}`)
            assert.deepEqual(
              firstArrivals(hand, `${run}-${i}`),
              sent.map(({ eventId }) => eventId),
            )
          }
        },
      ),
  },
  {
    name: 'does not bring again what was done',
    applies: always,
    async run(bench) {
      const messages = several(20)
      await withHand(
        bench,
        () => done,
        async (hand) => {
          await bench.send(messages)
          await hand.arrived(messages)
        },
      )
      const marker = testMessage()
      await withHand(
        bench,
        () => done,
        async (hand) => {
          await bench.send([marker])
          await hand.arrived([marker])
          assert.deepEqual(
            hand.arrivals
              .map(({ event }) => event.id)
              .filter((id) => messages.some(({ eventId }) => eventId === id)),
            [],
          )
        },
      )
    },
  },
  {
    name: 'brings again what was answered with "again", and marks it where the broker can tell',
    applies: always,
    async run(bench, { holding }) {
      let refusals = 2
      const message = testMessage()
      await withHand(
        bench,
        ({ event }) => (event.id === message.eventId && refusals-- > 0 ? again(20) : done),
        async (hand) => {
          await bench.send([message])
          await hand.arrived([message], 3)
          if (holding) assert.equal(hand.of(message).at(-1)?.delivery.redelivered, true)
        },
      )
    },
  },
  {
    name: 'brings to the next what was not answered when it stopped, and what it then gave back',
    applies: always,
    async run(bench) {
      const messages = several(10)
      const hand = await takeInHand(bench, () => again())
      await bench.send(messages)
      await hand.arrived(messages)
      await hand.stop()
      await withHand(
        bench,
        () => done,
        (next) => next.arrived(messages),
      )
    },
  },
  {
    name: 'keeps the order of an aggregate over a stop in the middle',
    applies: ({ ordering }) => ordering === 'aggregate',
    async run(bench) {
      const aggregateId = testMessage().eventId
      const messages = several(30, { aggregateId })
      let taken = 0
      const first = await takeInHand(bench, ({ event }) =>
        event.aggregateId === aggregateId && ++taken > 10 ? again() : done,
      )
      await bench.send(messages)
      await until(bench, 'that a part arrives', () => taken > 10)
      await first.stop()
      await withHand(
        bench,
        () => done,
        async (next) => {
          await next.arrived(messages.slice(10))
          const order = firstArrivals(next, aggregateId)
          const wanted = messages.map(({ eventId }) => eventId).filter((id) => order.includes(id))
          assert.deepEqual(order, wanted)
        },
      )
    },
  },
  {
    name: 'waits at a stop for the answers, acknowledges them, and hands over nothing new',
    applies: always,
    async run(bench) {
      const message = testMessage()
      let answerNow!: (answer: DeliveryAnswer) => void
      const hand = await takeInHand(bench, ({ event }) =>
        event.id === message.eventId ? new Promise((resolve) => (answerNow = resolve)) : done,
      )
      await bench.send([message])
      await hand.arrived([message])
      let stopped = false
      const stopping = hand.stop().then(() => (stopped = true))
      await new Promise((resolve) => setTimeout(resolve, 50))
      assert.equal(stopped, false, 'stop must wait for the answer')
      const count = hand.arrivals.length
      answerNow(done)
      await stopping
      await hand.stop()
      const marker = testMessage()
      await bench.send([marker])
      await withHand(
        bench,
        () => done,
        async (next) => {
          await next.arrived([marker])
          assert.equal(next.of(message).length, 0, 'what was answered during the stop must not come again')
        },
      )
      assert.equal(hand.arrivals.length, count, 'nothing new after stop')
    },
  },
  {
    name: 'may be stopped before it is started, and while it starts',
    applies: always,
    async run(bench) {
      const never = await bench.create()
      await never.stop({ graceMs: 1_000 })
      await never.stop({ graceMs: 1_000 })
      const source = await bench.create()
      const starting = source
        .start(async () => again(), { observer: { down: () => undefined, up: () => undefined } })
        .catch(() => undefined)
      await source.stop({ graceMs: 1_000 })
      await starting
    },
  },
  {
    name: 'goes on after its connection was cut, and loses nothing',
    applies: ({ cut }) => cut,
    run: (bench) =>
      withHand(
        bench,
        () => done,
        async (hand) => {
          const before = several(10)
          await bench.send(before)
          await hand.arrived(before)
          await bench.cut!()
          const after = several(10)
          await bench.send(after)
          await hand.arrived(after)
        },
      ),
  },
  {
    name: 'goes on after the broker was away, and tells both',
    applies: ({ restart }) => restart,
    run: (bench, { holding }) =>
      withHand(
        bench,
        () => done,
        async (hand) => {
          await bench.stop!()
          if (holding) await until(bench, 'that it tells of the outage', () => hand.told.includes('down'))
          await bench.start!()
          const after = several(10)
          await bench.send(after)
          await hand.arrived(after)
          if (holding) await until(bench, 'that it tells of the end', () => hand.told.includes('up'))
        },
      ),
  },
]
