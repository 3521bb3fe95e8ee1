import type { Abortion } from './abort.ts'

/** Lets a bounded number of tasks run at once; the rest waits in order. */
export interface Lanes {
  /** Resolves with a function that frees the lane, or with null when `call` is aborted first. */
  enter(call: Abortion): Promise<(() => void) | null>
}

export function createLanes(limit: number): Lanes {
  let free = limit
  const waiting = new Set<() => void>()

  function leave(): void {
    const [next] = waiting
    if (next === undefined) {
      free++
      return
    }
    waiting.delete(next)
    next()
  }

  function once(): () => void {
    let left = false
    return () => {
      if (!left) leave()
      left = true
    }
  }

  return {
    enter(call) {
      if (call.aborted) return Promise.resolve(null)
      if (free > 0) {
        free--
        return Promise.resolve(once())
      }
      return new Promise((resolve) => {
        const stay = call.onAbort(() => {
          waiting.delete(admit)
          resolve(null)
        })
        const admit = () => {
          stay()
          resolve(once())
        }
        waiting.add(admit)
      })
    },
  }
}
