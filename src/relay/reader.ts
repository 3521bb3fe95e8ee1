import type { OwnedBucket } from './aggregate.ts'
import type { Backlog } from './backlog.ts'
import type { Dispatcher } from './dispatcher.ts'
import { createSignal, pause, retryPauseMs } from '../pause.ts'
import type { Source } from './source.ts'
import type { Wakeup } from './wakeup.ts'

export interface ReaderOptions {
  source: Source
  backlog: Backlog
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
  /** True when the last look found nothing and nothing happened since. */
  readonly quiet: boolean
}

/** How often to look at who is writing while events come in, in milliseconds. */
const writersEveryMs = 50
/** Every bucket is read from its start again so often, in milliseconds: the net below the low-water marks. */
const rewindEveryMs = 60_000
const errorPauseMaxMs = 5_000
/** Longest wait for room in memory, in milliseconds; something to settle opens it earlier. */
const roomWaitMs = 1_000

export function createReader(options: ReaderOptions): Reader {
  const { source, backlog, dispatcher, wakeup } = options
  const stopping = new AbortController()
  const progress = createSignal()
  let toOpen = new Set<OwnedBucket>()
  let decided = 0n
  let writersAt = -Infinity
  let rewoundAt = performance.now()
  let quiet = false
  /** Counts what happens from outside while a look is under way. */
  let changes = 0
  let loop: Promise<void> | undefined

  async function run(): Promise<void> {
    let failures = 0
    while (!stopping.signal.aborted) {
      try {
        const found = await look()
        failures = 0
        if (found !== undefined) await wakeup.next(found)
      } catch (error) {
        backlog.cancelRead()
        if (stopping.signal.aborted) return
        options.onError(error)
        await pause(retryPauseMs(failures++, errorPauseMaxMs), stopping.signal)
      }
    }
  }

  /** One look for work. Answers how many events came, or undefined when the next look is due at once. */
  async function look(): Promise<number | undefined> {
    if (toOpen.size > 0) await openBuckets()
    const now = performance.now()
    if (now - rewoundAt > rewindEveryMs) rewindAll()
    let found = await resume()
    // Reading little by little costs more than it brings.
    if (backlog.room < backlog.worthReading) {
      dispatcher.makeRoom()
      if (backlog.room < backlog.worthReading) {
        quiet = false
        await progress.wait(roomWaitMs)
        return undefined
      }
    }
    const { requests, skip, complete } = backlog.plan(backlog.room)
    const before = changes
    let outdated = false
    if (requests.length > 0) {
      if (now - writersAt > writersEveryMs) {
        decided = (await source.readWriters()).decided
        writersAt = now
      }
      backlog.beginRead()
      const events = await source.read(requests, skip)
      found += backlog.add(requests, events, decided, performance.now())
      backlog.cancelRead()
      outdated = backlog.isOutdated(requests)
      options.onRead()
    }
    dispatcher.pump()
    quiet = found === 0 && complete && !outdated && changes === before
    // The buckets that were not asked, or whose answer was of no use any more, come next.
    return found === 0 && (!complete || outdated) ? undefined : found
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
    const resumed = backlog.planResume()
    if (resumed.length === 0) return 0
    backlog.beginRead()
    const events = await source.readAggregates(resumed)
    const added = backlog.addResumed(resumed, events, performance.now())
    backlog.cancelRead()
    dispatcher.pump()
    return added
  }

  function rewindAll(): void {
    rewoundAt = performance.now()
    decided = 0n
    writersAt = -Infinity
    for (const bucket of backlog.buckets.values()) backlog.rewind(bucket, rewoundAt)
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
      if (backlog.resumable > 0) wakeup.nudge()
    },
    rewindAll,
    get quiet() {
      return quiet && toOpen.size === 0
    },
  }
}
