/** A service that does the same thing again and again, beside the delivery. */
export interface BackgroundService {
  /** Begins at once. Does nothing when started already. */
  start(): void
  /** Ends a run under way at its next safe point and waits for it. Idempotent. */
  stop(): Promise<void>
}

export interface BackgroundOptions {
  /** Pause between the end of one run and the start of the next, in milliseconds. */
  intervalMs: number
  /** One run; must not throw for what may happen in ordinary life. */
  run: (signal: AbortSignal) => Promise<void>
}

/** Runs never overlap, however long one takes. */
export function createBackgroundService({ intervalMs, run }: BackgroundOptions): BackgroundService {
  let stopping: AbortController | undefined
  let loop: Promise<void> | undefined

  async function repeat(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await run(signal)
      await pause(intervalMs, signal)
    }
  }

  return {
    start() {
      if (loop !== undefined) return
      stopping = new AbortController()
      loop = repeat(stopping.signal)
    },
    async stop() {
      stopping?.abort()
      await loop
      loop = undefined
    },
  }
}

/** Resolves after a time or at once when aborted; never keeps the process alive by itself. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const end = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms).unref()
    signal.addEventListener('abort', end)
  })
}
