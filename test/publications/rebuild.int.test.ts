import { describe, expect, test } from 'vitest'
import { deferred } from '../consumer/harness.ts'
import { waitsForLock } from '../support/postgres.ts'
import { createWorld, database, handOver } from './fixtures/rebuilding.ts'

const ids = Array.from({ length: 25 }, (_, i) => `n-${String(i).padStart(2, '0')}`)

describe('a damaged projection', () => {
  test('is right again, and nothing else has happened twice', async () => {
    const world = await createWorld()
    for (const id of ids) await world.publish(id, 2)
    const before = await world.shown()
    const told = world.effects.length
    await database.query(`DELETE FROM ${world.table} WHERE id < 'n-10'`)
    await database.query(`UPDATE ${world.table} SET body = 'nonsense' WHERE id > 'n-20'`)
    // Also what the projection has forgotten altogether.
    await database.query(
      `DELETE FROM "waybill".projection_revisions WHERE projection = $1 AND aggregate_id = 'n-15'`,
      [world.notes.name],
    )
    expect(await world.shown()).not.toEqual(before)

    const progress: number[] = []
    const report = await world.rebuild({
      batch: 7,
      onProgress: (n) => progress.push(n),
      reason: 'lost rows',
      by: 'me',
    })
    expect(report).toEqual({
      projection: world.notes.name,
      publications: [
        {
          ...{ publication: 'note', consumer: world.consumer.name, read: 25, rebuilt: 25, waiting: 0 },
          ...{ dead: 0, deadReason: null, notPublished: 0, tooLarge: 0, notInSource: 0 },
        },
      ],
      ...{ complete: true, stopped: null },
    })
    expect(await world.shown()).toEqual(before)
    expect(progress.at(-1)).toBe(25)
    for (const id of ids) {
      expect(await world.rebuilt(id)).toEqual([2])
      expect(await world.revision(id)).toBe(2n)
    }
    expect(world.effects).toHaveLength(told)
    expect(await world.left()).toBe(0)
    const { symptoms } = await world.diagnosis.audit('note')
    expect(symptoms).toEqual({})
    expect(await world.diagnosis.decisions({ limit: 1 })).toMatchObject([
      { action: 'rebuilt', what: `projection ${world.notes.name}`, reason: 'lost rows', decidedBy: 'me' },
    ])
  })

  test('of one aggregate is rebuilt alone', async () => {
    const world = await createWorld()
    for (const id of ids.slice(0, 3)) await world.publish(id, 1)
    await database.query(`DELETE FROM ${world.table}`)
    const report = await world.rebuild({ aggregate: ['note', 'n-01'] })
    expect(report.publications).toMatchObject([{ read: 1, rebuilt: 1, notInSource: null }])
    expect(await world.shown()).toEqual({ 'n-01': world.text('n-01', 1) })
    expect(await world.diagnosis.decisions({ aggregate: ['note', 'n-01'] })).toMatchObject([
      { action: 'rebuilt' },
    ])
  })

  test('keeps what the source does not have, and counts it', async () => {
    const world = await createWorld()
    for (const id of ids.slice(0, 5)) await world.publish(id, 1)
    await database.query(`DELETE FROM ${world.source} WHERE id <= 'n-01'`)
    expect((await world.rebuild()).publications).toMatchObject([{ read: 3, rebuilt: 3, notInSource: 2 }])
    expect(Object.keys(await world.shown())).toHaveLength(5)
  })

  test('shows nothing that was not handed over', async () => {
    const world = await createWorld({ keeps: 'history' })
    const publish = (id: string, revision: number, column = '') =>
      database.query(
        `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, revision${column && `, ${column}`})
         VALUES ('note', $1, 'note.published', '{}', $2${column && ', now()'})`,
        [id, revision],
      )
    // Saved, and nobody decided to publish it; decided and on its way; given up; handed over.
    await world.save('draft', 1, { isOut: false })
    await world.save('pending', 1, { isOut: false })
    await publish('pending', 1)
    for (const n of [1, 2, 3]) await world.save('mixed', n, { isOut: false })
    await publish('mixed', 1, 'processed_at')
    await publish('mixed', 2, 'discarded_at')
    await publish('mixed', 3, 'processed_at')
    await world.save('mixed', 4, { isOut: false })
    expect(await world.rebuild()).toMatchObject({
      ...{ complete: true, publications: [{ read: 3, rebuilt: 1, notPublished: 2 }] },
    })
    expect(await world.shown()).toEqual({ mixed: world.text('mixed', 3) })
    expect(await world.rebuilt('mixed')).toEqual([1, 3])
  })

  test('leaves a history alone that is too large for one message, and rebuilds its neighbours', async () => {
    const world = await createWorld({ keeps: 'history' })
    for (const id of ['a', 'c']) await world.save(id, 1)
    await handOver('b', 70)
    await database.query(
      `INSERT INTO ${world.source} SELECT 'b', n, repeat('x', 1024 * 1024) FROM generate_series(1, 65) AS n`,
    )
    expect(await world.rebuild({ batch: 10 })).toMatchObject({
      ...{ complete: false, stopped: null, publications: [{ read: 3, rebuilt: 2, tooLarge: 1 }] },
    })
    expect(Object.keys(await world.shown())).toEqual(['a', 'c'])
  })

  test('is rebuilt by a consumer with a format of its own', async () => {
    const world = await createWorld({ consumer: { decode: () => null } })
    await world.save('n-1', 4)
    await world.rebuild()
    expect(await world.shown()).toEqual({ 'n-1': world.text('n-1', 4) })
  })
})

describe.each(['latest', 'contiguous'] as const)('in the mode %s', (mode) => {
  test('the row of a source with the latest only is applied, whatever the projection has', async () => {
    const world = await createWorld({ mode })
    await world.publish('same', 3)
    await world.save('never', 7)
    await world.publish('behind', 2)
    await world.save('behind', 9)
    await world.save('zero', 0)
    await database.query(`DELETE FROM ${world.table}`)
    expect(await world.rebuild()).toMatchObject({ complete: true })
    for (const [id, revision] of Object.entries({ same: 3, never: 7, behind: 9, zero: 0 })) {
      expect((await world.shown())[id]).toBe(world.text(id, revision))
      expect(await world.rebuilt(id)).toEqual([revision])
      expect(await world.revision(id)).toBe(BigInt(revision))
    }
    // Live goes on from there.
    await world.deliver('never', 8)
    expect(await world.revision('never')).toBe(8n)
  })

  test('all that a source with the history has is applied in turn, also over its gaps', async () => {
    const world = await createWorld({ mode, keeps: 'history' })
    await world.publish('a', 5)
    await world.publish('b', 3)
    for (const n of [4, 6, 7, 11]) await world.save('gaps', n)
    await database.query(`DELETE FROM ${world.table}`)
    // Pages end in the middle of aggregates.
    const report = await world.rebuild({ batch: 2 })
    expect(report.publications).toMatchObject([{ read: 3, rebuilt: 3 }])
    expect(await world.rebuilt('a')).toEqual([1, 2, 3, 4, 5])
    expect(await world.rebuilt('b')).toEqual([1, 2, 3])
    expect(await world.rebuilt('gaps')).toEqual([4, 6, 7, 11])
    expect(await world.shown()).toEqual({
      ...{ a: world.text('a', 5), b: world.text('b', 3), gaps: world.text('gaps', 11) },
    })
    expect(await world.left()).toBe(0)
  })

  test('a newer live revision wins', async () => {
    const world = await createWorld({ mode })
    await world.publish('n', 3)
    await world.save('n', 2)
    expect((await world.rebuild()).publications).toMatchObject([{ read: 1, rebuilt: 1 }])
    expect(await world.rebuilt('n')).toEqual([])
    expect(await world.shown()).toEqual({ n: world.text('n', 3) })
    expect(await world.left()).toBe(0)
  })

  test('a live revision that comes while an aggregate is rebuilt waits for it and is applied', async () => {
    const [begun, go] = [deferred(), deferred()]
    const world = await createWorld({
      ...{ mode, keeps: 'history', processes: 2 },
      // The other process rebuilds.
      consumer: { pollIntervalMs: 3_600_000 },
      before: async ({ event, rebuild }) => {
        if (rebuild === null || event.revision !== 1n) return
        begun.resolve()
        await go.promise
      },
    })
    await world.publish('n', 3)
    const rebuilding = world.rebuild()
    await begun.promise
    await world.save('n', 4)
    const live = world.deliver('n', 4)
    // Where there is one, at the lock that both take first, so that they cannot wait for each other.
    const waiting = () =>
      database.rows(
        `SELECT wait_event FROM pg_stat_activity WHERE datname = current_database() AND ${waitsForLock}`,
      )
    const place = mode === 'latest' ? 'transactionid' : 'advisory'
    await expect.poll(waiting).toEqual([{ wait_event: place }])
    // Readers see the old row meanwhile, not that of a revision that was applied again.
    expect(await world.shown()).toEqual({ n: world.text('n', 3) })
    go.resolve()
    await Promise.all([rebuilding, live])
    expect(await world.rebuilt('n')).toEqual([1, 2, 3])
    expect(await world.shown()).toEqual({ n: world.text('n', 4) })
    expect(await world.revision('n')).toBe(4n)
  })

  test('live events of all go on while two rebuild at once, twice', { timeout: 120_000 }, async () => {
    const world = await createWorld({ mode, keeps: 'history', processes: 2 })
    for (const id of ids) await world.publish(id, 2)
    await database.query(`UPDATE ${world.table} SET body = 'nonsense'`)
    let ended = false
    const newest = new Map(ids.map((id) => [id, 2]))
    const live = (async () => {
      for (let n = 3; !ended || n <= 5; n++)
        for (const id of ids) {
          await world.save(id, n)
          await world.deliver(id, n)
          newest.set(id, n)
        }
    })()
    for (let round = 0; round < 2; round++) {
      const both = await Promise.all([1, 2].map(() => world.rebuild({ batch: 10, mostWaiting: 10 })))
      for (const report of both) expect(report).toMatchObject({ complete: true, stopped: null })
    }
    ended = true
    await live
    for (const id of ids) {
      expect((await world.shown())[id]).toBe(world.text(id, newest.get(id)!))
      expect(await world.revision(id)).toBe(BigInt(newest.get(id)!))
    }
    expect(await world.left()).toBe(0)
  })
})

test('a revision that is parked behind a gap goes on when the rebuild has jumped over it', async () => {
  const world = await createWorld({ mode: 'contiguous' })
  await world.publish('n', 1)
  await world.deliver('n', 4)
  expect(world.consumer.events('consumer.parked')).toHaveLength(1)
  await world.save('n', 3)
  await world.rebuild()
  await expect.poll(() => world.revision('n')).toBe(4n)
  expect(await world.rebuilt('n')).toEqual([3])
  expect(await world.shown()).toEqual({ n: world.text('n', 4) })
  expect(await world.left()).toBe(0)
})
