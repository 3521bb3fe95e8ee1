import type { OwnedBucket } from './aggregate.ts'
import type { Backlog } from './backlog.ts'
import type { Dispatcher } from './dispatcher.ts'
import { createSignal, pause, retryPauseMs } from '../pause.ts'
import type { Intake } from './intake.ts'
import { planSkips } from './read-plan.ts'
import { createRecent } from './recent.ts'
import type { BucketRequest, ReadEvent, Source } from './source.ts'
import type { Look, Wakeup } from './wakeup.ts'

export interface ReaderOptions {
  source: Source
  backlog: Backlog
  intake: Intake
  dispatcher: Dispatcher
  wakeup: Wakeup
  /** A read worked. */
  onRead: () => void
  onError: (error: unknown) => void
}

/** Brings events from the source into the backlog, for as long as there is room. */
export interface Reader {
  start(): void
  stop(): Promise<void>
  /** These buckets are new, or a command changed what they hold: their dead letters first, then from the start. */
  open(buckets: readonly OwnedBucket[]): void
  /** Something was settled. */
  onProgress(): void
  /** Positions are worth nothing any more. */
  rewindAll(): void
  /** True when the last look found nothing, or could not be made for want of room, and nothing happened since. */
  readonly quiet: boolean
}

/** How often to look at who is writing while events come in, in milliseconds. */
const writersEveryMs = 50
/** Every bucket is read from its start again so often, in milliseconds: the net below the low-water marks. */
const sweepEveryMs = 60_000
const errorPauseMaxMs = 5_000
/** Longest wait for room in memory, in milliseconds; something to settle opens it earlier. */
const roomWaitMs = 100
/**
 * A destination without room is passed when reading had to wait for it for so long, in milliseconds, and for most of
 * the time: what is passed is read twice, which does not pay for one that takes events nearly as fast as they are read.
 */
const passAfterMs = 100
const passAfterPart = 0.75

export function createReader(options: ReaderOptions): Reader {
  const { source, backlog, intake, dispatcher, wakeup } = options
  const stopping = new AbortController()
  const progress = createSignal()
  const patience = createPatience()
  let toOpen = new Set<OwnedBucket>()
  const recent = createRecent()
  let decided = 0n
  let writersAt = -Infinity
  let sweptAt = performance.now()
  let quiet = false
  /** Counts what happens from outside while a look is under way. */
  let changes = 0
  /** What it was when the round of reads began, and whether another one begins next. */
  let changesBefore = 0
  let roundBegins = true
  let loop: Promise<void> | undefined

  async function run(): Promise<void> {
    let failures = 0
    while (!stopping.signal.aborted) {
      try {
        const looked = await look()
        failures = 0
        await wakeup.next(looked)
      } catch (error) {
        backlog.endRead()
        if (stopping.signal.aborted) return
        options.onError(error)
        await pause(retryPauseMs(failures++, errorPauseMaxMs), stopping.signal)
      }
    }
  }

  /** One look for work. */
  async function look(): Promise<Look> {
    if (toOpen.size > 0) await openBuckets()
    const before = changes
    if (roundBegins) changesBefore = before
    const now = performance.now()
    // Looks are many, and most have nothing of this to do.
    let found = intake.isDue ? (await resume()) + (await catchUp()) : 0
    if (intake.sweep.isUnderWay || now - sweptAt > sweepEveryMs) found += await sweep(now)
    const room = patience.roomToRead((passing) => intake.readable(passing, now))
    if (room === 0) {
      dispatcher.makeRoom()
      quiet = found === 0 && !intake.isDue && !intake.mayPass && changes === before
      if (!intake.isDue) await patience.wait(progress.wait(roomWaitMs))
      return { found: 0, more: true }
    }
    // Before the plan: it may say that reading begins elsewhere.
    if (now - writersAt > writersEveryMs && backlog.buckets.size > 0) await lookAtWriters()
    const requests = intake.front.plan(room)
    let complete = true
    if (requests.length > 0) {
      const marks = { decided, recent: recent.position }
      const read = await take(requests, (events) =>
        intake.front.add(requests, events, marks, performance.now()),
      )
      found += read.added
      complete = read.complete
      options.onRead()
    }
    dispatcher.pump()
    quiet = found === 0 && complete && changes === changesBefore
    roundBegins = complete
    if (complete) patience.reset()
    // The buckets that were not asked, or whose answer was of no use any more, come next.
    return { found, more: !complete || intake.isDue || intake.sweep.isUnderWay }
  }

  async function lookAtWriters(): Promise<void> {
    const writers = await source.readWriters()
    writersAt = performance.now()
    decided = writers.decided
    if (recent.add(writers, writersAt)) intake.front.backToFloor()
  }

  /** One read. What becomes known while it is under way is told from what it shows. */
  async function take<T>(
    requests: readonly BucketRequest[],
    use: (events: readonly ReadEvent[]) => T,
  ): Promise<T> {
    backlog.beginRead()
    const result = use(await source.read(requests, planSkips(backlog.buckets.values())))
    backlog.endRead()
    return result
  }

  async function openBuckets(): Promise<void> {
    const opening = [...toOpen].filter((bucket) => !bucket.lost)
    // Before it is asked: what changes from here on asks for it again.
    toOpen = new Set()
    backlog.beginHeld()
    let held
    try {
      held = await source.readHeld(opening.map((bucket) => bucket.bucket))
    } catch (error) {
      for (const bucket of opening) toOpen.add(bucket)
      throw error
    }
    const now = performance.now()
    const still = opening.filter((bucket) => backlog.buckets.get(bucket.bucket) === bucket)
    backlog.setHeld(
      still.map((bucket) => bucket.bucket),
      held,
      now,
    )
    for (const bucket of still) backlog.rewind(bucket, now)
  }

  async function resume(): Promise<number> {
    const resumed = intake.singles.plan()
    if (resumed.length === 0) return 0
    backlog.beginRead()
    const events = await source.readAggregates(resumed)
    const added = intake.singles.add(resumed, events, performance.now())
    backlog.endRead()
    dispatcher.pump()
    return added
  }

  /** What was left in the table of a destination that has room again. */
  async function catchUp(): Promise<number> {
    const plan = intake.arrears.plan()
    if (plan === undefined) return 0
    const added = await take(plan.requests, (events) => intake.arrears.add(plan, events, performance.now()))
    dispatcher.pump()
    return added
  }

  async function sweep(now: number): Promise<number> {
    if (now - sweptAt > sweepEveryMs) {
      sweptAt = now
      intake.sweep.begin()
    }
    const requests = intake.sweep.plan()
    if (requests.length === 0) return 0
    return take(requests, (events) => intake.sweep.add(requests, events, performance.now()))
  }

  function rewindAll(): void {
    decided = 0n
    recent.reset()
    writersAt = -Infinity
    const now = performance.now()
    for (const bucket of backlog.buckets.values()) backlog.rewind(bucket, now)
  }

  return {
    start() {
      loop ??= run()
    },
    async stop() {
      stopping.abort()
      progress.notify()
      wakeup.nudge()
      await loop
    },
    open(buckets) {
      for (const bucket of buckets) toOpen.add(bucket)
      changes++
      quiet = false
      wakeup.nudge()
    },
    onProgress() {
      changes++
      quiet = false
      progress.notify()
      if (intake.isDue) wakeup.nudge()
    },
    rewindAll,
    get quiet() {
      return quiet && toOpen.size === 0
    },
  }
}

/** Decides how long reading waits for a destination that has no room. */
function createPatience() {
  let waitedMs = 0
  let since = performance.now()
  let passing = false

  function reset(): void {
    waitedMs = 0
    since = performance.now()
  }

  return {
    /** Everything was read, nobody has waited. */
    reset,
    roomToRead(readable: (passing: boolean) => number): number {
      const room = readable(false)
      if (room > 0) {
        passing = false
        return room
      }
      passing ||= waitedMs > passAfterMs && waitedMs > passAfterPart * (performance.now() - since)
      return passing ? readable(true) : 0
    },
    async wait(forRoom: Promise<unknown>): Promise<void> {
      const from = performance.now()
      await forRoom
      waitedMs += performance.now() - from
    },
  }
}
