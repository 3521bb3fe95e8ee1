import { beforeAll, expect, test } from 'vitest'
import { projection } from '../../src/consumer/index.ts'
import { createCli, temporaryFolder } from '../cli/cli.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'
import { plant, published } from '../operations/plant.ts'
import { note, testConsumer } from './harness.ts'

let db: TestDatabase
const cwd = await temporaryFolder()
beforeAll(async () => {
  db = await createTestDatabase()
})

test('dead letters of a consumer are listed page by page, put back, and handled', async () => {
  const waybill = createCli(cwd, db)
  let broken = true
  const handled: string[] = []
  const consumer = await testConsumer(db, {
    name: 'public-list',
    maxAttempts: 1,
    handlers: {
      '*': ({ event }) => {
        if (broken) throw new Error('the list is full')
        handled.push(event.id)
      },
    },
  })
  const messages = [note({ aggregateId: 'n-1' }), note({ aggregateId: 'n-2' }), note({ aggregateId: 'n-3' })]
  for (const message of messages) await consumer.deliver(message)
  const [first, second, third] = messages.map(({ eventId }) => eventId) as [string, string, string]

  const text = await waybill(['consumer', 'dead', 'list'])
  expect(text.stdout).toMatch(/public-list +.*note\.published +note n-1 +1 .*dead +the list is full/)
  const page = JSON.parse((await waybill(['consumer', 'dead', 'list', '--limit', '2', '--json'])).stdout)
  expect(page.items.map((item: any) => item.eventId)).toEqual([first, second])
  const rest = JSON.parse(
    (await waybill(['consumer', 'dead', 'list', '--limit', '2', '--json', '--after', page.next])).stdout,
  )
  expect(rest).toMatchObject({
    items: [{ eventId: third, reason: 'the list is full', retrying: false }],
    next: null,
  })

  broken = false
  const some = await waybill([
    'consumer',
    'dead',
    'retry',
    first,
    'nobody',
    '--consumer',
    'public-list',
    '--json',
  ])
  expect(some.code).toBe(1)
  expect(JSON.parse(some.stdout)).toEqual({ changed: 1, overtaken: [], notDead: ['nobody'], complete: true })
  await consumer.until('consumer.handled', ({ eventId }) => eventId === first)

  // A later one of its aggregate was handled: going back needs a word.
  await consumer.deliver(note({ aggregateId: 'n-2' }))
  const refused = await waybill(['consumer', 'dead', 'retry', '--all', '--consumer', 'public-list', '--json'])
  expect(refused.code).toBe(1)
  expect(JSON.parse(refused.stdout)).toEqual({ changed: 1, overtaken: [second], notDead: [], complete: true })
  await consumer.until('consumer.handled', ({ eventId }) => eventId === third)
  expect(handled).not.toContain(second)
  const discard = ['consumer', 'dead', 'discard', second, '--consumer', 'public-list']
  expect((await waybill(discard)).code).toBe(2)
  const discarded = await waybill([...discard, '--reason', 'superseded'])
  expect(discarded).toMatchObject({ code: 0, stdout: 'discarded 1 dead letter\n' })
  expect((await waybill(['consumer', 'dead', 'list'])).stderr).toMatch(/no dead letter of a consumer/)
  expect(
    await db.rows('SELECT action, reason, details->>$1 AS id FROM "waybill".decisions ORDER BY decided_at', [
      'eventId',
    ]),
  ).toEqual([
    { action: 'consumer_retried', reason: 'retried', id: first },
    { action: 'consumer_retried', reason: 'retried', id: third },
    { action: 'consumer_discarded', reason: 'superseded', id: second },
  ])
})

test('what waits behind a revision that will never come is released', async () => {
  const waybill = createCli(cwd, db)
  const notes = projection({ name: 'gapless', mode: 'contiguous', schema: testSchema })
  const consumer = await testConsumer(db, {
    name: 'gapless-list',
    handlers: { '*': ({ event, tx }) => notes.apply(tx, event, () => undefined) },
  })
  for (const revision of ['1', '3', '4']) await consumer.deliver(note({ aggregateId: 'a b', revision }))
  const release = ['consumer', 'release', 'note', 'a b', '--consumer', 'gapless-list']
  const without = await waybill(release)
  expect([without.code, without.stderr]).toEqual([2, expect.stringContaining('--reason')])
  expect(await waybill([...release, '--reason', 'lost before the outbox'])).toMatchObject({
    ...{ code: 0, stderr: '' },
    stdout: 'gapless goes on without revision 2 of note a b: a process of gapless-list applies revision 3\n',
  })
  await consumer.until(
    'consumer.handled',
    () => consumer.events('consumer.handled').filter(({ result }) => result === 'applied').length === 3,
  )
  const again = await waybill([...release, '--reason', 'twice'])
  expect([again.code, again.stdout]).toEqual([1, ''])
  expect(again.stderr).toMatch(/^waybill: nothing of note "a b" is parked in the consumer [^\n]+\n$/)
  expect((await waybill(['decisions', '--aggregate', 'note', 'a b'])).stdout).toMatch(
    /released +\S+ +note a b:3 without 2 to 2 +lost before the outbox/,
  )

  await consumer.deliver(note({ aggregateId: 'a b', revision: '9' }))
  expect((await waybill([...release, '--reason', 'again', '--json'])).json()).toEqual({
    ...{ consumer: 'gapless-list', projection: 'gapless', aggregate: ['note', 'a b'] },
    ...{ skippedFrom: '5', skippedTo: '8', next: '9' },
  })
})

test('status and list show the consumers beside the outbox', async () => {
  const own = await createTestDatabase()
  const waybill = createCli(cwd, own)
  expect((await waybill(['status'])).stdout).not.toMatch(/consumers/)
  const [event] = await plant(own, { ...published, type: 'note.published' })
  const consumer = await testConsumer(own, {
    name: 'billing',
    handlers: { 'note.published': () => undefined },
  })
  await consumer.deliver(note({ eventId: event!.id }))
  await plant(own, { ...published, type: 'note.published', processedAt: "now() - interval '90 minutes'" })

  const { stdout } = await waybill(['status'])
  expect(stdout).toMatch(/[^\n]\n\nconsumers\nconsumer +processes +lag +dead +parked +newest results\n/)
  expect(stdout).toMatch(/\nbilling +1 +1 h 30 min +0 +0 +1 applied in 1 h\n/)
  expect(stdout).toMatch(new RegExp(`\nbilling +\\S+ +${process.pid} `))
  expect((await waybill(['status', '--json'])).json()).toMatchObject({
    consumers: [{ name: 'billing', instances: [{ processId: process.pid }], deadLetters: 0 }],
  })
  expect((await waybill(['list'])).stdout).toMatch(/ consumers\n.*billing applied\n/)
  expect((await waybill(['list', '--json'])).json()).toMatchObject({
    items: [{ consumers: [{ consumer: 'billing', result: 'applied' }] }, { consumers: [] }],
  })
})

test('wrong words are told', async () => {
  const waybill = createCli(cwd, db)
  const retry = ['consumer', 'dead', 'retry', '--consumer', 'x']
  expect(await waybill(retry)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/ids of events, or --all/) as string,
  })
  expect((await waybill([...retry, 'id', '--all'])).code).toBe(2)
  expect((await waybill(['consumer', 'dead', 'list', '--after', 'bm8'])).stderr).toMatch(/not one of ours/)
})
