export interface Abortion {
  readonly aborted: boolean
  /** Resolves, with undefined, at the abort: to race against. */
  readonly promise: Promise<undefined>
  /** Runs at the abort, or at once when it has come; the answer takes it back. */
  onAbort(run: () => void): () => void
  /** Lets go of the signals: they may live longer than a call. */
  release(): void
}

/**
 * The abort of any of these signals, with one listener on each, however many messages a call holds: Node warns
 * of a leak from the eleventh listener on.
 */
export function whenAborted(...signals: readonly AbortSignal[]): Abortion {
  const runs = new Set<() => void>()
  let aborted = false
  let resolve!: () => void
  const promise = new Promise<undefined>((done) => (resolve = () => done(undefined)))

  function abort(): void {
    if (aborted) return
    aborted = true
    resolve()
    for (const run of runs) run()
    runs.clear()
  }

  for (const signal of signals) {
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
  }
  return {
    get aborted() {
      return aborted
    },
    promise,
    onAbort(run) {
      if (aborted) run()
      else runs.add(run)
      return () => runs.delete(run)
    },
    release: () => signals.forEach((signal) => signal.removeEventListener('abort', abort)),
  }
}

/** The promise, unless the signal aborts first: then it rejects with `no answer in time`. */
export async function beforeAbort(signal: AbortSignal, work: Promise<unknown>): Promise<void> {
  const aborted = whenAborted(signal)
  try {
    const outcome = await Promise.race([work.then(() => 'done' as const), aborted.promise])
    if (outcome === undefined) throw new Error('no answer in time')
  } finally {
    aborted.release()
  }
}
