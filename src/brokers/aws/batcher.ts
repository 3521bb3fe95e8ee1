/** Collects small things into requests. */
export interface Batcher<Item> {
  /** Resolves when the request with this item has ended, however it ended. */
  add(item: Item): Promise<void>
}

/** AWS takes ten entries in a request. */
const mostEntries = 10
/** Requests at once: what comes meanwhile goes together into the next one. */
const mostRequests = 4

/** @param send is given one to ten items, and must not reject */
export function createBatcher<Item>(send: (items: readonly Item[]) => Promise<void>): Batcher<Item> {
  const waiting: { item: Item; done: () => void }[] = []
  let active = 0
  let scheduled = false

  function schedule(): void {
    if (scheduled || active >= mostRequests || waiting.length === 0) return
    scheduled = true
    // What is added in the same turn belongs together.
    setImmediate(() => {
      scheduled = false
      while (active < mostRequests && waiting.length > 0) void flush()
    })
  }

  async function flush(): Promise<void> {
    const batch = waiting.splice(0, mostEntries)
    active++
    await send(batch.map(({ item }) => item))
    active--
    for (const { done } of batch) done()
    schedule()
  }

  return {
    add: (item) =>
      new Promise((done) => {
        waiting.push({ item, done })
        schedule()
      }),
  }
}
