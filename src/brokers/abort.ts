export interface Abortion {
  /** Resolves, with undefined, when the first of the signals aborts. */
  readonly promise: Promise<undefined>
  /** Lets go of the signals: they may live longer than a call. */
  release(): void
}

/** The abort of any of these signals as a promise, to race against. Call `release` when the race is over. */
export function whenAborted(...signals: readonly AbortSignal[]): Abortion {
  let abort!: () => void
  const promise = new Promise<undefined>((resolve) => (abort = () => resolve(undefined)))
  for (const signal of signals) {
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
  }
  return { promise, release: () => signals.forEach((signal) => signal.removeEventListener('abort', abort)) }
}
