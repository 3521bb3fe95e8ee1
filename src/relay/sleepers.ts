import type { Aggregate } from './aggregate.ts'

/** Aggregates that wait, each until its `wakeAt`. */
export interface Sleepers {
  readonly size: number
  add(aggregate: Aggregate): void
  delete(aggregate: Aggregate): boolean
  /** Lets those go whose moment has come; answers the next moment (`performance.now()`), or Infinity. */
  wake(now: number, letGo: (aggregate: Aggregate) => void): number
}

export function createSleepers(): Sleepers {
  const sleeping = new Set<Aggregate>()
  /** Nobody wakes before. */
  let nextAt = Infinity
  return {
    get size() {
      return sleeping.size
    },
    add(aggregate) {
      sleeping.add(aggregate)
      nextAt = Math.min(nextAt, aggregate.wakeAt)
    },
    delete: (aggregate) => sleeping.delete(aggregate),
    wake(now, letGo) {
      if (now < nextAt) return nextAt
      nextAt = Infinity
      for (const aggregate of sleeping) {
        if (aggregate.wakeAt > now) {
          nextAt = Math.min(nextAt, aggregate.wakeAt)
          continue
        }
        sleeping.delete(aggregate)
        letGo(aggregate)
      }
      return nextAt
    },
  }
}
