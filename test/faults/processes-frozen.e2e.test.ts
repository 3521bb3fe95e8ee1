import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { createLedger } from '../support/ledger.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { eventually } from './kit.ts'
import { createRandom, repeat } from './fixtures/random.ts'
import { type FaultRelay, startRelay, stopStarted } from './fixtures/relay-process.ts'
import { type Verdict, slowNowAndThen, startSink } from './fixtures/sink.ts'
import { expectKept, readOwners, untilSettled } from './fixtures/table.ts'

interface Version {
  id: string
  /** The transaction that wrote the row last. */
  xmin: string
  processed_at: string | null
  receipt: string | null
}

/** Every row in order. */
function readVersions(database: TestDatabase): Promise<Version[]> {
  return database.rows<Version>(
    `SELECT id, xmin::text, processed_at::text, receipt FROM "waybill".outbox_events ORDER BY position`,
  )
}

const isMarked = ({ processed_at: at }: Version) => at !== null

/** An answer that comes when the test says so. */
function gate() {
  let open!: (verdict: Verdict) => void
  const verdict = new Promise<Verdict>((resolve) => (open = resolve))
  return { open, verdict }
}

describe('a relay that stands still for longer than its lease', () => {
  test('changes no row when it wakes, says that it lost its buckets, and works on', async () => {
    const database = await createTestDatabase()
    const ledger = await createLedger(database)
    const sink = await startSink(ledger)
    await ledger.write(100, { aggregates: 25 })
    const [sleeperHears, otherHears] = [gate(), gate()]
    let withSleeper = 0
    let held = ''
    sink.answer = ({ relay, aggregate, id }) => {
      if (relay === 'sleeper') {
        withSleeper++
        return sleeperHears.verdict
      }
      if (aggregate !== 'a-1' || held !== '') return 'published'
      held = id
      return otherHears.verdict
    }
    const sleeper = startRelay({ database, sink, name: 'sleeper' })
    await sleeper.until('relay.buckets', ({ owned }) => owned === 64)
    // The first event of each aggregate is under way, and nothing is marked.
    await sink.until(() => withSleeper === 25)
    expect((await readVersions(database)).filter(isMarked)).toEqual([])

    sleeper.strike('SIGSTOP')
    const other = startRelay({ database, sink, name: 'other' })
    await other.until('relay.buckets', ({ owned }) => owned === 64)
    expect(other.logged('relay.crash_suspected')).toHaveLength(64)
    // The other one has marked some of what the sleeper has in its hands, and one of them it has under way.
    await sink.until(() => held !== '')
    const untouched = await eventually('the other one rests', async () => {
      const versions = await readVersions(database)
      await delay(300)
      return JSON.stringify(await readVersions(database)) === JSON.stringify(versions) && versions
    })
    const fixed = untouched.filter((version) => isMarked(version) || version.id === held)
    expect(new Set(fixed.map(({ receipt }) => receipt))).toEqual(new Set(['other', null]))

    // What the sleeper waits for comes while it sleeps: it wakes with 25 confirmed events in its hands.
    const before = sink.arrivals.length
    sleeperHears.open('published')
    await sink.until(() => sink.arrivals.length === before + 25)
    sleeper.process.signal('SIGCONT')
    const said = await sleeper.until('relay.lease_lost')
    expect(said).toMatchObject({
      level: 'warn',
      msg: expect.stringContaining('another relay owns a bucket now'),
    })
    await sleeper.until('relay.buckets', ({ owned, time }) => owned > 20 && time > said.time)
    expect(sleeper.logged('relay.lease_lost')).toHaveLength(64)
    const ids = new Set(fixed.map(({ id }) => id))
    expect((await readVersions(database)).filter(({ id }) => ids.has(id))).toEqual(fixed)

    otherHears.open('published')
    await sink.untilDistinct(100)
    await untilSettled(database)
    const marked = await readVersions(database)
    sink.answer = () => 'published'
    await ledger.write(100, { aggregates: 25 })
    await ledger.untilDelivered()
    await untilSettled(database)
    const now = await readVersions(database)
    expect(now.slice(0, 100)).toEqual(marked)
    expect(new Set(now.slice(100).map(({ receipt }) => receipt))).toEqual(new Set(['sleeper', 'other']))
    const relays = [sleeper, other]
    for (const relay of relays) expect(await stopStarted(relay)).toEqual({ code: 0, signal: null })
    expect(await expectKept({ ledger, database, sink, relays }, 30_000)).toMatchObject({ duplicates: 25 })
  })

  test(
    'again and again, at random moments under load: marked rows never change',
    { timeout: 120_000 * repeat },
    async () => {
      const random = createRandom()
      const database = await createTestDatabase()
      const ledger = await createLedger(database)
      const sink = await startSink(ledger)
      sink.answer = slowNowAndThen(random)
      const relays = [1, 2, 3].map(() =>
        startRelay({ database, sink, relay: { leaseMs: 2_000, batchSize: 20 } }),
      )
      const suspected = (among: readonly FaultRelay[]) =>
        among.flatMap((relay) => relay.logged('relay.crash_suspected')).length
      const writers = ledger.startWriters({ aggregates: 40 })
      await sink.untilDistinct(50)
      let marked: Version[] = []
      for (let round = 0; round < 3 * repeat; round++) {
        // Each of them has something to lose.
        while ((await readOwners(database)).length < relays.length) await delay(50)
        await delay(random.between(20, 500))
        const victim = random.pick(relays)
        const others = relays.filter((relay) => relay !== victim)
        const before = suspected(others)
        const lost = victim.logged('relay.lease_lost').length
        victim.strike('SIGSTOP')
        // Past the lease: others have taken what it had.
        while (suspected(others) === before) await delay(50)
        await delay(random.between(600, 1_200))
        marked = (await readVersions(database)).filter(isMarked)
        victim.strike('SIGCONT')
        while (victim.logged('relay.lease_lost').length === lost) await delay(20)
      }
      await writers.stop()
      await ledger.untilDelivered()
      await untilSettled(database)
      const now = new Map((await readVersions(database)).map((version) => [version.id, version]))
      expect(marked.length).toBeGreaterThan(100)
      expect(marked.filter(({ id, xmin }) => now.get(id)?.xmin !== xmin)).toEqual([])
      for (const relay of relays) expect(await stopStarted(relay)).toEqual({ code: 0, signal: null })
      await expectKept({ ledger, database, sink, relays })
    },
  )
})
