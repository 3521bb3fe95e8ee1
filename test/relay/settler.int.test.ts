import { expect, test } from 'vitest'
import { createConnection } from '../../src/database/connection.ts'
import { type Aggregate, type Entry, createBucket } from '../../src/relay/aggregate.ts'
import { createSettler } from '../../src/relay/settler.ts'
import { createStatements } from '../../src/relay/statements.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { eventually } from '../faults/kit.ts'
import { insertEvents } from './harness.ts'

const relayId = '00000000-0000-4000-8000-000000000001'

test('an outcome that comes in the very moment in which the last one is written is not forgotten', async () => {
  const database = await createTestDatabase()
  const [id] = await insertEvents(database, [{}])
  await database.query(`UPDATE "waybill".outbox_buckets SET owner = $1, epoch = 1`, [relayId])
  const connection = createConnection({ databaseUrl: database.url, schema: database.schema })
  atEndOfFile(() => connection.close())
  let written = () => undefined as void
  const settler = createSettler({
    settle: 'mark',
    connection,
    statements: createStatements(database.schema),
    relayId,
    onSettled: () => written(),
    onLost: (lost) => expect(lost).toEqual([]),
    onOutdated: (outdated) => expect(outdated).toEqual([]),
    onAnswer: () => undefined,
    onError: (error) => expect(error).toBeUndefined(),
    pause: () => Promise.resolve(),
  })
  const bucket = createBucket({ bucket: 0, epoch: '1', rescan: '0', suspects: 0, suspected: null }, 8)
  const aggregate = { bucket, queue: [] } as unknown as Aggregate
  const entry = { event: { id, position: 1n }, aggregate } as unknown as Entry
  for (let steps = 0; steps < 30; steps++) {
    let settled = 0
    written = () => {
      if (++settled > 1) return
      // So many steps of other promises after the first one is written.
      let left = steps
      const step = (): void => {
        if (left-- > 0) queueMicrotask(step)
        else settler.settle({ kind: 'survived', entry, crashes: 0 })
      }
      queueMicrotask(step)
    }
    settler.settle({ kind: 'survived', entry, crashes: 0 })
    await eventually(`both are written (${steps})`, () => Promise.resolve(settled === 2), 2_000)
  }
  await settler.idle()
  expect(settler.pending).toBe(0)
})
