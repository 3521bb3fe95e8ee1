/** Runs the work of one key in order, one at a time, and the work of different keys at once. */
export interface Lanes {
  /** Takes its place in the queue at once. `work` must not reject. */
  run<T>(key: string, work: () => Promise<T>): Promise<T>
  /** Resolves when nothing is left. */
  idle(): Promise<void>
}

export function createLanes(): Lanes {
  const tails = new Map<string, Promise<unknown>>()
  return {
    run(key, work) {
      const before = tails.get(key)
      const mine = before === undefined ? work() : before.then(work)
      const tail: Promise<unknown> = mine.then(() => {
        if (tails.get(key) === tail) tails.delete(key)
      })
      tails.set(key, tail)
      return mine
    },
    async idle() {
      while (tails.size > 0) await Promise.all(tails.values())
    },
  }
}

/** One aggregate, whatever characters its parts hold. */
export function laneKey({
  aggregateType,
  aggregateId,
}: {
  aggregateType: string
  aggregateId: string
}): string {
  return `${aggregateType.length}:${aggregateType}${aggregateId}`
}
