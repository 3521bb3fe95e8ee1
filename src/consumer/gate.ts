/** Lets a bounded number of tries run at once; who comes first goes first. */
export interface Gate {
  /**
   * Resolves with a function that frees the place. `alone`: when no other runs, and none begins until it is freed.
   */
  enter(alone?: boolean): Promise<() => void>
}

export function createGate(limit: number): Gate {
  const waiting: { alone: boolean; admit: () => void }[] = []
  let active = 0
  let closed = false

  function pump(): void {
    for (let next = waiting[0]; next !== undefined && !closed; next = waiting[0]) {
      if (next.alone ? active > 0 : active >= limit) return
      waiting.shift()
      active++
      closed = next.alone
      next.admit()
    }
  }

  return {
    enter: (alone = false) =>
      new Promise((resolve) => {
        let left = false
        const leave = () => {
          if (left) return
          left = true
          active--
          if (alone) closed = false
          pump()
        }
        waiting.push({ alone, admit: () => resolve(leave) })
        pump()
      }),
  }
}
