import type { Aggregate, Entry, OwnedBucket, Prepared } from '../../src/relay/aggregate.ts'
import { Backlog } from '../../src/relay/backlog.ts'
import { createIntake } from '../../src/relay/intake.ts'
import { planSkips } from '../../src/relay/read-plan.ts'
import { createRecent } from '../../src/relay/recent.ts'
import type { AggregateRequest, BucketRequest, ReadEvent } from '../../src/relay/source.ts'

export interface ModelOptions {
  seed: number
  buckets: number
  aggregates: number
  destinations: number
  capacity: number
  perAggregate: number
  /** Part of the aggregates whose events go to several destinations. */
  mixed: number
  /** Part of the tries that fail, or end in a dead letter that holds. */
  failing: number
  /** Whether the first destination takes next to nothing, and transactions stay open for long. */
  stalling: boolean
  /** Whether buckets are lost and taken again: then what was under way may go out twice. */
  losing: boolean
}

interface Row extends ReadEvent {
  readonly body: string
  readonly destination: string
  /** 1, 2, 3 … in its aggregate. */
  readonly number: number
  visible: boolean
  state: 'pending' | 'published' | 'dead'
}

interface Call {
  readonly entry: Entry
  readonly row: Row
  outcome?: 'published' | 'failed' | 'dead'
}

/** Numbers between 0 and 1 that are the same for the same seed. */
function createRandom(seed: number): () => number {
  let state = seed * 2654435761
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

/**
 * The backlog and what reads for it, between a table that commits late and destinations that are slow, fail and bury,
 * all of it in memory and by chance, so that ten thousand courses of events take seconds.
 */
export function createModel(options: ModelOptions) {
  const random = createRandom(options.seed)
  const below = (n: number) => Math.floor(random() * n)
  const names = Array.from({ length: options.destinations }, (_, i) => `d-${i}`)
  const rows: Row[] = []
  /** Those that are not published. */
  let unpublished: Row[] = []
  const byId = new Map<string, Row>()
  const counts: number[] = Array.from({ length: options.aggregates }, () => 0)
  const latest = new Map<number, Row>()
  const delivered = new Map<string, number[]>()
  const ready: Aggregate[] = []
  const calls: Call[] = []
  const settling: Call[] = []
  const speed = new Map(names.map((name) => [name, random()]))
  /** A transaction that has written and stays open for long, and so holds back the low-water mark. */
  let holdsBack: bigint | undefined
  const recent = createRecent()
  /** How much happens while a read is under way. */
  const meanwhile = options.stalling ? 0.9 : 0.6
  let now = 1
  let epoch = 0
  let isOver = false
  let mostInMemory = 0
  let inMemory = 0

  const backlog = new Backlog({
    capacity: options.capacity,
    destinations: names,
    isAway: () => false,
    onReady: (aggregate) => void ready.push(aggregate),
  })
  const destinationOf = ({ id }: Pick<ReadEvent, 'id'>) => byId.get(id)!.destination
  const intake = createIntake({
    ...{ backlog, destinationOf, capacity: options.capacity, perAggregate: options.perAggregate },
    prepare: (event): Prepared => ({ destination: destinationOf(event), message: {} as never, bytes: 1 }),
  })

  function write(): void {
    if (isOver) return
    const aggregate = below(options.aggregates)
    // Writers of one aggregate are serialised.
    if (latest.get(aggregate)?.visible === false) return
    const isMixed = aggregate < options.mixed * options.aggregates
    const row: Row = {
      ...{
        bucket: aggregate % options.buckets,
        position: BigInt(rows.length + 1),
        id: `e-${rows.length + 1}`,
      },
      ...{ aggregateType: 't', aggregateId: `a-${aggregate}`, eventType: 'e', body: 'b', headers: '{}' },
      ...{ revision: null, operationId: null, createdAtMicros: '0', replay: null },
      ...{ attempts: 0, crashes: 0, retryInMs: 0, state: 'pending', visible: random() < 0.5 },
      destination: names[isMixed ? below(names.length) : aggregate % names.length]!,
      number: (counts[aggregate]! += 1),
    }
    latest.set(aggregate, row)
    rows.push(row)
    unpublished.push(row)
    byId.set(row.id, row)
  }

  function commit(all = false): void {
    for (const row of unpublished) if (!row.visible && (all || random() < 0.2)) row.visible = true
    if (all || random() < (options.stalling ? 0.01 : 0.05)) holdsBack = undefined
    else holdsBack ??= BigInt(rows.length)
  }

  /** As the low-water mark: nothing at or below is still to come. */
  function decided(): bigint {
    const open = unpublished.find((row) => !row.visible)
    const highest = open === undefined ? BigInt(rows.length) : open.position - 1n
    return holdsBack !== undefined && holdsBack < highest ? holdsBack : highest
  }

  function read(requests: readonly BucketRequest[], skip: readonly AggregateRequest[]): ReadEvent[] {
    const left = (row: Row) =>
      skip.some(({ aggregateId, from }) => aggregateId === row.aggregateId && row.position >= from)
    return requests.flatMap(({ bucket, floor, limit, payloads }) =>
      cut(
        unpublished
          .filter((row) => row.bucket === bucket && row.position > floor && isPending(row) && !left(row))
          .slice(0, limit),
        payloads,
      ),
    )
  }

  /** Sometimes the rest is too much for one read. */
  function cut(found: readonly Row[], payloads = true): ReadEvent[] {
    const after = payloads ? (random() < 0.1 ? 1 + below(10) : Infinity) : 0
    return found.map((row, i) => ({ ...row, body: i >= after ? null : row.body }))
  }

  const isPending = (row: Row) => row.visible && row.state === 'pending'

  /** What the reader does, with things happening while each read is under way. */
  function take<T>(requests: readonly BucketRequest[], use: (events: readonly ReadEvent[]) => T): T {
    const skips = planSkips(backlog.buckets.values())
    backlog.beginRead()
    while (random() < meanwhile) happen()
    const events = read(requests, skips)
    while (random() < meanwhile) happen()
    const result = use(events)
    backlog.endRead()
    return result
  }

  function look(passing: boolean): boolean {
    const resumed = intake.singles.plan()
    if (resumed.length > 0) {
      backlog.beginRead()
      const events = resumed.flatMap(({ bucket, aggregateId, from, limit }) =>
        cut(
          unpublished
            .filter((row) => row.bucket === bucket && row.aggregateId === aggregateId)
            .filter((row) => row.position >= from && isPending(row))
            .slice(0, limit),
        ),
      )
      while (random() < meanwhile) happen()
      intake.singles.add(resumed, events, now)
      backlog.endRead()
    }
    const plan = intake.arrears.plan()
    if (plan !== undefined) take(plan.requests, (events) => intake.arrears.add(plan, events, now))
    if (random() < 0.02) intake.sweep.begin()
    const swept = intake.sweep.plan()
    if (swept.length > 0) take(swept, (events) => intake.sweep.add(swept, events, now))
    let room = intake.readable(false, now)
    if (room === 0 && passing) room = intake.readable(true, now)
    if (room === 0) return false
    const open = unpublished.filter(({ visible }) => !visible).map(({ id }) => id)
    if (holdsBack !== undefined) open.push(`before ${holdsBack}`)
    const mark = decided()
    // A moment of the model stands for so many milliseconds.
    if (recent.add({ drawn: BigInt(rows.length), open }, now * 20)) intake.front.backToFloor()
    const requests = intake.front.plan(room)
    if (requests.length === 0) return true
    const { added, complete } = take(requests, (events) =>
      intake.front.add(requests, events, { decided: mark, recent: recent.position }, now),
    )
    return added === 0 && complete
  }

  function start(): void {
    const name = names[below(names.length)]!
    const slow = options.stalling && name === names[0] && !isOver ? 0.01 : 1
    if (random() > speed.get(name)! * slow) return
    for (let tries = ready.length; tries > 0; tries--) {
      const aggregate = ready.shift()!
      const head = aggregate.queue[0]
      if (aggregate.state !== 'ready' || head === undefined || aggregate.bucket.lost) continue
      if (head.outcome.destination !== name) {
        ready.push(aggregate)
        continue
      }
      const [entry] = backlog.takeHead(aggregate, 1)
      calls.push({ entry: entry!, row: byId.get(entry!.event.id)! })
      return
    }
  }

  function goOn({ aggregate }: Entry): void {
    if (aggregate.state !== 'busy') return
    aggregate.state = 'idle'
    backlog.advance(aggregate, now)
  }

  function finish(): void {
    const [call] = calls.splice(below(calls.length), 1)
    if (call === undefined) return
    const { entry, row } = call
    if (random() < 0.05) {
      backlog.putBack(entry.aggregate, [entry])
      goOn(entry)
      return
    }
    call.outcome = random() >= options.failing ? 'published' : random() < 0.2 ? 'dead' : 'failed'
    settling.push(call)
    if (call.outcome !== 'published') return
    backlog.published(entry)
    const key = row.aggregateId
    delivered.set(key, [...(delivered.get(key) ?? []), row.number])
    if (entry.aggregate.failing?.eventId === row.id) entry.aggregate.failing = null
    goOn(entry)
  }

  function settle(): void {
    const call = settling.shift()
    if (call === undefined) return
    const { entry, row, outcome } = call
    const { aggregate } = entry
    if (aggregate.bucket.lost) return backlog.drop(entry)
    if (outcome === 'failed') {
      aggregate.failing ??= { eventId: row.id, since: now, lastAt: now, tries: 0 }
      backlog.release(entry)
      backlog.sleep(aggregate, now + below(50))
      return
    }
    row.state = outcome!
    if (outcome === 'published') unpublished = unpublished.filter((other) => other !== row)
    backlog.settled(entry)
    if (outcome === 'published') return
    aggregate.failing = null
    backlog.hold(aggregate)
  }

  /** A command takes a dead letter back: its bucket is opened anew. */
  function retry(row: Row | undefined): void {
    if (row === undefined) return
    row.state = 'pending'
    const bucket = backlog.buckets.get(row.bucket)
    if (bucket !== undefined) open(bucket)
  }

  function open(bucket: OwnedBucket): void {
    backlog.beginHeld()
    const held = unpublished.filter(({ bucket: of, state }) => of === bucket.bucket && state === 'dead')
    backlog.setHeld([bucket.bucket], held, now)
    backlog.rewind(bucket, now)
  }

  function own(number: number): void {
    open(backlog.own({ bucket: number, epoch: String(++epoch), rescan: '0', suspects: 0, suspected: null }))
  }

  function lose(): void {
    const number = below(options.buckets)
    const bucket = backlog.buckets.get(number)
    if (bucket === undefined) own(number)
    else backlog.disown(bucket)
  }

  /** As for a destination that is away. */
  function makeRoom(): void {
    for (const aggregate of ready) {
      if (aggregate.state !== 'ready' || aggregate.bucket.lost || random() < 0.7) continue
      if (random() < 0.5) backlog.shed(aggregate)
      else backlog.trim(aggregate)
    }
  }

  /** What goes on by itself, also while a read is under way. */
  function happen(): void {
    now++
    const [start_, finish_, settle_, write_] = [start, finish, settle, write]
    const chosen = [start_, start_, finish_, finish_, settle_, settle_, write_, write_, commit][below(9)]!
    chosen()
    backlog.wake(now)
    inMemory = backlog.shares.all.reduce((sum, { events }) => sum + events, 0)
    mostInMemory = Math.max(mostInMemory, inMemory)
  }

  function step(): void {
    happen()
    const chance = random()
    if (chance < 0.3) look(random() < 0.5)
    else if (chance < 0.31) for (const bucket of backlog.buckets.values()) backlog.rewind(bucket, now)
    else if (chance < 0.33) retry(unpublished.find(({ state }) => state === 'dead'))
    else if (chance < 0.34) speed.set(names[below(names.length)]!, random() < 0.5 ? 0 : random())
    else if (chance < 0.345 && options.losing) lose()
    else if (chance < 0.36) makeRoom()
  }

  for (let number = 0; number < options.buckets; number++) own(number)

  return {
    run(steps: number): void {
      for (let i = 0; i < steps; i++) step()
    },
    /** Nothing more is written, everything works: until all is delivered. Answers how many rounds that took. */
    finish(limit: number): number {
      options = { ...options, failing: 0 }
      isOver = true
      commit(true)
      for (const name of names) speed.set(name, 1)
      for (let number = 0; number < options.buckets; number++) if (!backlog.buckets.has(number)) own(number)
      for (let round = 1; round <= limit; round++) {
        for (const row of unpublished) if (row.state === 'dead') retry(row)
        now += 100
        backlog.wake(now)
        for (const name of names) {
          speed.set(name, 1)
          for (let i = 0; i < 20; i++) start()
        }
        while (calls.length > 0) finish()
        while (settling.length > 0) settle()
        const quiet = look(true)
        if (quiet && !intake.isDue && !intake.sweep.isUnderWay && unpublished.length === 0) return round
      }
      return Infinity
    },
    /** Aggregates whose events were first delivered in another order than that in which they were written. */
    get outOfOrder(): string[] {
      return [...delivered].flatMap(([id, numbers]) => {
        const first = [...new Set(numbers)]
        return first.every((number, i) => number === i + 1) ? [] : [`${id}: ${first.join()}`]
      })
    },
    get duplicates(): number {
      return [...delivered.values()].reduce((sum, numbers) => sum + numbers.length - new Set(numbers).size, 0)
    },
    get undelivered(): number {
      return unpublished.length
    },
    get written(): number {
      return rows.length
    },
    get mostInMemory(): number {
      return mostInMemory
    },
    /** What should be nothing when all is delivered. */
    get leftovers() {
      const buckets = [...backlog.buckets.values()]
      return {
        events: backlog.shares.all.reduce((sum, { events }) => sum + events, 0),
        bytes: backlog.shares.all.reduce((sum, { bytes }) => sum + bytes, 0),
        owing: backlog.shares.all.reduce((sum, { owing }) => sum + owing, 0),
        resumable: backlog.shares.all.reduce((sum, { resumable }) => sum + resumable.size, 0),
        aggregates: buckets.reduce((sum, { aggregates }) => sum + aggregates.size, 0),
        arrears: buckets.filter(({ arrears }) => arrears !== null).length,
      }
    },
  }
}
