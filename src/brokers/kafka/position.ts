/** What was handed over of one partition, and up to where all of it is done. */
export interface Position {
  /** Messages that were handed over since the first one that is not done, itself included. */
  readonly span: number
  /** Notes that this offset is handed over; offsets come in order, not always without gaps. */
  add(offset: string): void
  /** Notes that it is done. Answers true when that moved {@link commit}. */
  done(offset: string): boolean
  /** The offset to commit: behind the last message before which everything is done. Undefined: nothing is. */
  readonly commit: string | undefined
}

export function createPosition(): Position {
  /** In the order of handing over, from the first that is not done. */
  let open: { offset: string; done: boolean }[] = []
  const byOffset = new Map<string, { offset: string; done: boolean }>()
  let commit: string | undefined

  return {
    get span() {
      return open.length
    },
    get commit() {
      return commit
    },
    add(offset) {
      const entry = { offset, done: false }
      open.push(entry)
      byOffset.set(offset, entry)
    },
    done(offset) {
      const entry = byOffset.get(offset)
      if (entry === undefined) return false
      entry.done = true
      let count = 0
      while (open[count]?.done === true) byOffset.delete(open[count++]!.offset)
      if (count === 0) return false
      commit = String(BigInt(open[count - 1]!.offset) + 1n)
      open = open.slice(count)
      return true
    },
  }
}
