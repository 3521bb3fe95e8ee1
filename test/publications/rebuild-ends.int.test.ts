import { describe, expect, test } from 'vitest'
import { reject } from '../../src/consumer/index.ts'
import { deferred } from '../consumer/harness.ts'
import { grantsFor } from '../schema/grants.ts'
import { createWorld, database } from './fixtures/rebuilding.ts'

const ids = Array.from({ length: 25 }, (_, i) => `n-${String(i).padStart(2, '0')}`)

describe('a rebuild', () => {
  test('that is interrupted tells what is done, and the same again does the rest', async () => {
    const go = deferred()
    const stop = new AbortController()
    const world = await createWorld({ before: ({ rebuild }) => (rebuild === null ? undefined : go.promise) })
    for (const id of ids) await world.publish(id, 1)
    await database.query(`DELETE FROM ${world.table}`)
    // No more waits at once than may, although the consumer takes none.
    const interrupted = world.rebuild({ batch: 5, mostWaiting: 10, signal: stop.signal })
    const waiting = () =>
      database.rows(`SELECT FROM "waybill".consumer_messages WHERE consumer = $1 AND state = 'rebuild'`, [
        world.consumer.name,
      ])
    await expect.poll(async () => (await waiting()).length).toBe(10)
    stop.abort()
    expect(await interrupted).toMatchObject({
      ...{ complete: false, stopped: 'interrupted' },
      publications: [{ read: 10, rebuilt: 0, waiting: 10, notInSource: null }],
    })
    go.resolve()
    expect(await world.rebuild({ batch: 5, mostWaiting: 10 })).toMatchObject({
      ...{ complete: true, publications: [{ read: 25, rebuilt: 25, waiting: 0 }] },
    })
    expect(Object.keys(await world.shown())).toHaveLength(25)
    expect(await world.left()).toBe(0)
  })

  test('goes on from one look of the consumer to the next', { timeout: 15_500 }, async () => {
    // Two looks, of which the consumer waits for one only.
    const world = await createWorld({ consumer: { pollIntervalMs: 8_000 } })
    await world.saveMany(101)
    expect(await world.rebuild()).toMatchObject({ publications: [{ read: 101, rebuilt: 101 }] })
  })

  test('that a handler refuses is a dead letter, the projection stays as it was, and it can be put back', async () => {
    let broken = true
    const world = await createWorld({
      before: ({ rebuild }) => {
        if (broken && rebuild !== null) throw reject('no such tenant')
      },
    })
    await world.publish('n', 2)
    const report = await world.rebuild()
    expect(report).toMatchObject({
      ...{ complete: false, stopped: null },
      publications: [{ read: 1, rebuilt: 0, dead: 1, deadReason: 'no such tenant' }],
    })
    expect(await world.revision('n')).toBe(2n)
    const [dead] = await database.rows(
      `SELECT event_id, origin FROM "waybill".consumer_dead_letters WHERE consumer = $1`,
      [world.consumer.name],
    )
    expect(dead).toMatchObject({ origin: `rebuild:${world.notes.name}` })
    broken = false
    await database.query(`DELETE FROM ${world.table}`)
    await database.query(
      `UPDATE "waybill".consumer_messages SET state = 'retry', attempts = 0, crashes = 0 WHERE consumer = $1`,
      [world.consumer.name],
    )
    await world.consumer.until(
      'consumer.handled',
      ({ eventId, result }) => eventId === dead!['event_id'] && result === 'applied',
    )
    expect(await world.rebuilt('n')).toEqual([2])
    expect(await world.left()).toBe(0)

    // Or by the same command.
    broken = true
    expect((await world.rebuild()).publications[0]!.dead).toBe(1)
    broken = false
    expect(await world.rebuild()).toMatchObject({ complete: true, publications: [{ rebuilt: 1, dead: 0 }] })
    expect(await world.left()).toBe(0)
  })

  test('ends when everything dies, and says why', async () => {
    const world = await createWorld({
      before: () => {
        throw reject('nothing will do')
      },
    })
    await world.saveMany(400)
    const report = await world.rebuild({ batch: 20, mostWaiting: 40 })
    expect(report).toMatchObject({ complete: false, stopped: 'dead-letters' })
    expect(report.publications[0]).toMatchObject({ deadReason: 'nothing will do' })
    expect(report.publications[0]!.dead).toBeGreaterThanOrEqual(100)
    expect(report.publications[0]!.read).toBeLessThan(250)
  })

  test('whose handler does not apply the projection changes nothing and says so', async () => {
    const world = await createWorld()
    await world.publish('n', 2)
    const other = world.diagnose({ projections: ['another'] })
    const report = await other.rebuild('another')
    expect(report.publications[0]!.deadReason).toMatch(
      /handler of "note.published" did not apply revision 2 to the projection "another".*name the consumer that does/,
    )
    expect(
      await database.rows(`SELECT FROM "waybill".projection_revisions WHERE projection = 'another'`),
    ).toEqual([])
  })

  test('whose handler swallows the error of a write leaves the projection as it was', async () => {
    let broken = false
    const world = await createWorld({
      before: async ({ tx }) => {
        if (broken) await tx.query('SELECT 1/0').catch(() => undefined)
      },
    })
    await world.publish('n', 2)
    broken = true
    expect((await world.rebuild()).publications).toMatchObject([{ rebuilt: 0, dead: 1 }])
    expect(await world.revision('n')).toBe(2n)
    expect(await world.shown()).toEqual({ n: world.text('n', 2) })
  })

  test('ends when the consumer goes, with what waits', async () => {
    const begun = deferred()
    const world = await createWorld({
      before: async ({ rebuild, signal }) => {
        if (rebuild === null) return
        begun.resolve()
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))))
      },
    })
    await world.publish('n', 1)
    const rebuilding = world.rebuild({ patienceMs: 1 })
    await begun.promise
    await world.consumer.stop({ graceMs: 1 })
    expect(await rebuilding).toMatchObject({
      ...{ stopped: 'no-consumer', publications: [{ read: 1, rebuilt: 0, waiting: 1 }] },
    })
    // One that was killed, and one that handles something else.
    await database.query(
      `INSERT INTO "waybill".consumer_instances (consumer, instance_id, handlers, host, process_id, version, expires_at)
       VALUES ($1, gen_random_uuid(), '{note.published}', 'h', 1, '1', now()),
              ($1, gen_random_uuid(), '{note.deleted}', 'h', 2, '1', now() + interval '1 hour')`,
      [world.consumer.name],
    )
    await expect(world.rebuild()).rejects.toMatchObject({
      code: 'ACTION_REFUSED',
      message: expect.stringMatching(
        /^no process of the consumer "list-\w+" that handles "note.published" is at work/,
      ) as string,
    })
  })

  test('that cannot be is refused in one sentence, and decides nothing', async () => {
    const world = await createWorld()
    const { name } = world.notes
    const before = await database.rows('SELECT FROM "waybill".decisions')
    const asked = (changed: object, projection = name, how = {}) =>
      world.diagnose(changed).rebuild(projection, how)
    await expect(asked({}, name.toUpperCase())).rejects.toThrow(`did you mean "${name}"?`)
    await expect(asked({}, 'x')).rejects.toThrow(
      `no publication names the projection "x", expected one of ${name}`,
    )
    await expect(asked({ projections: [] })).rejects.toThrow('name it under "projections" of the publication')
    await expect(asked({ intent: { eventType: 'note.published' } })).rejects.toThrow(
      'configure intent.eventType and intent.payload',
    )
    await expect(asked({ consumers: [] })).rejects.toThrow(
      'names no consumer in the database of the projection',
    )
    await expect(asked({}, name, { consumer: 'liszt' })).rejects.toThrow(
      `unknown consumer "liszt", expected one of ${world.consumer.name}`,
    )
    await expect(asked({}, name, { aggregate: ['order', 'o-1'] })).rejects.toThrow(
      'is of note, not of "order"',
    )
    await expect(asked({}, name, { reason: ' ' })).rejects.toMatchObject({ code: 'USAGE_INVALID' })
    const second = await createWorld()
    await expect(asked({ consumers: [world.consumer.name, second.consumer.name] })).rejects.toThrow(
      /several consumers handle .* say by --consumer/,
    )
    expect(await database.rows('SELECT FROM "waybill".decisions')).toEqual(before)
  })

  test('of a source that cannot be read says so', async () => {
    const world = await createWorld()
    const { name } = world.notes
    await world.save('n', 1)
    const asked = (changed: object, url?: string) => world.diagnose(changed, url).rebuild(name)
    await expect(asked({ source: { table: 'nowhere' } })).rejects.toThrow(
      /^there is no table nowhere: correct source.table of the publication/,
    )
    const intent = { eventType: 'note.published', payload: 'nothing_of_it' }
    await expect(asked({ intent })).rejects.toThrow(
      /correct "source" or "intent.payload" of its configuration/,
    )
    await expect(asked({ intent: { ...intent, payload: 'NULL' } })).rejects.toThrow(
      /gives no payload \(null\) for revision 1 of "n"/,
    )
    const role = `reader_${name.slice(-8)}`
    await database.query(
      `CREATE ROLE ${role} LOGIN PASSWORD 'x';
${grantsFor(database, 'consumer', role).join('')}`,
    )
    const url = new URL(database.url)
    ;[url.username, url.password] = [role, 'x']
    await expect(asked({}, url.href)).rejects.toMatchObject({
      code: 'PERMISSION_DENIED',
      message: expect.stringMatching(
        /lacks SELECT on the table \S+: its owner may run GRANT SELECT ON/,
      ) as string,
    })
  })
})
