/** Counts calls of a publisher and remembers the first and the last. */
export interface Recorder {
  call(events: number): void
  readonly published: number
  /** Start of the first call, `performance.now()`. */
  readonly firstAt: number
  /** Start of the last call. */
  readonly lastAt: number
}

export function createRecorder(): Recorder {
  let published = 0
  let firstAt = Number.NaN
  let lastAt = Number.NaN
  return {
    call(events) {
      lastAt = performance.now()
      if (published === 0) firstAt = lastAt
      published += events
    },
    get published() {
      return published
    },
    get firstAt() {
      return firstAt
    },
    get lastAt() {
      return lastAt
    },
  }
}
