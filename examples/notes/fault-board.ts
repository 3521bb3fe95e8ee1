import type { Fault, Key, Part } from './faults.ts'

/** What is done with a fault now; `ready`: it may be done, for the first time or again. */
export type FaultStatus = 'ready' | 'injecting' | 'injected' | 'mending'

/** It would never end, or do harm that nobody asked for. */
export class FaultRefused extends Error {
  readonly status: 404 | 409

  constructor(status: 404 | 409, message: string) {
    super(message)
    this.status = status
  }
}

interface Entry {
  readonly fault: Fault
  status: FaultStatus
  /** What it has hit last. */
  hit: Key | null
  mending?: Promise<Key>
}

/** One thing at a time for each fault, whoever presses; and none that waits for what another one has taken away. */
export function createFaultBoard(faults: readonly Fault[]) {
  const entries: readonly Entry[] = faults.map((fault) => ({ fault, status: 'ready', hit: null }))

  function find(name: string): Entry {
    const entry = entries.find(({ fault }) => fault.name === name)
    if (entry !== undefined) return entry
    throw new FaultRefused(
      404,
      `no such fault; there are ${entries.map(({ fault }) => fault.name).join(', ')}`,
    )
  }

  function checkNeeds({ fault: { title, name } }: Entry, needs: readonly Part[], takes?: Part): void {
    for (const { fault, status } of entries) {
      if (fault.name === name || status === 'ready') continue
      if (fault.takes !== undefined && needs.includes(fault.takes)) {
        throw new FaultRefused(
          409,
          `"${title}" needs the ${fault.takes}, which "${fault.title}" has taken away: mend that first`,
        )
      }
      if (takes !== undefined && status !== 'injected' && fault.needs.includes(takes)) {
        throw new FaultRefused(
          409,
          `"${title}" takes the ${takes} away, which "${fault.title}" needs at this moment: do it a little later`,
        )
      }
    }
  }

  async function mendNow(entry: Entry, hit: Key): Promise<Key> {
    try {
      await entry.fault.mend?.(hit)
      entry.status = 'ready'
      return hit
    } catch (error) {
      entry.status = 'injected'
      throw error
    }
  }

  return {
    entries: entries as readonly Readonly<Entry>[],

    /** Does it; resolves when it is done. @throws FaultRefused */
    async inject(name: string): Promise<{ fault: Fault; key: Key }> {
      const entry = find(name)
      const { fault } = entry
      if (entry.status === 'injected') throw new FaultRefused(409, 'it is done already: mend it first')
      if (entry.status !== 'ready')
        throw new FaultRefused(409, `somebody is ${entry.status} it at this moment`)
      checkNeeds(entry, fault.needs, fault.takes)
      entry.status = 'injecting'
      try {
        entry.hit = await fault.inject()
        entry.status = fault.mend === undefined ? 'ready' : 'injected'
        return { fault, key: entry.hit }
      } catch (error) {
        entry.status = 'ready'
        throw error
      }
    },

    /** Undoes it. What is mended already is mended; who comes while it is being mended gets the same. @throws FaultRefused */
    async mend(name: string): Promise<Key> {
      const entry = find(name)
      const { status, hit, fault } = entry
      if (status === 'injecting') throw new FaultRefused(409, 'it is being done at this moment: mend it then')
      if (hit === null) throw new FaultRefused(404, 'it was not done: there is nothing to mend')
      if (status === 'ready') return hit
      if (status === 'mending') return entry.mending!
      checkNeeds(entry, fault.mendNeeds ?? [])
      entry.status = 'mending'
      return (entry.mending = mendNow(entry, hit))
    },
  }
}

export type FaultBoard = ReturnType<typeof createFaultBoard>
