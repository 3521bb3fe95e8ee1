/** The URLs of queues, asked for once: a queue that is deleted and made anew has the same. */
export interface QueueUrls {
  /** Rejects with what the look-up was rejected with; the next call asks again. */
  get(place: string): Promise<string>
  /** Ends what is under way. */
  close(): void
}

const remembered = 1000
/** Nobody waits so long; it ends a look-up that hangs, and with it all that would join it. */
const lookUpLimitMs = 10_000

export function createQueueUrls(lookUp: (name: string, signal: AbortSignal) => Promise<string>): QueueUrls {
  const known = new Map<string, Promise<string>>()
  const closing = new AbortController()

  return {
    async get(place) {
      if (place.includes('/')) return place
      const found = known.get(place)
      if (found !== undefined) return found
      if (known.size >= remembered) known.clear()
      // Shared by all requests that start together, so it ends with none of them.
      const asked = lookUp(place, AbortSignal.any([closing.signal, AbortSignal.timeout(lookUpLimitMs)]))
      known.set(place, asked)
      asked.catch(() => {
        if (known.get(place) === asked) known.delete(place)
      })
      return asked
    },
    close: () => closing.abort(),
  }
}
