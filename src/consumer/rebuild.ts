import { inSchema } from '../database/identifiers.ts'
import type { ReceivedEvent } from '../publishing/received-event.ts'
import { reject } from './failure.ts'
import type { Rebuild } from './job.ts'
import { EventParked, forgetOutcomes, outcomesOf } from './outcomes.ts'
import { lockProjection, readRevision, stepBack } from './projection-statements.ts'
import type { Store } from './store.ts'

export interface RebuilderOptions<Tx> {
  store: Store<Tx>
  schema: string
}

/**
 * Applies what the source has of one aggregate to one projection again, whatever revision the projection has. All in
 * the transaction at hand: readers see the old row or the new one, a live event waits on the row, and what fails leaves
 * everything as it was.
 */
export function createRebuilder<Tx>({ store, schema }: RebuilderOptions<Tx>) {
  const [lock, step, read] = [lockProjection, stepBack, readRevision].map((sql) => inSchema(sql, schema)) as [
    string,
    string,
    string,
  ]

  /** `stale`: a newer revision came first, and nothing was done. */
  return async (
    tx: Tx,
    { projection, events }: Rebuild,
    apply: (event: ReceivedEvent) => Promise<void>,
  ): Promise<'applied' | 'stale'> => {
    const newest = events.at(-1)!
    const key = [projection, newest.aggregateType, newest.aggregateId]
    // In the order in which a projection without gaps takes the two.
    await store.run(tx, lock, key)
    for (const event of events) {
      // The source is right, also where it has gaps.
      const before = [String(event.revision! - 1n), event.id, String(newest.revision)]
      const stepped = await store.run(tx, step, [...key, ...before])
      if (stepped.length === 0) return 'stale'
      forgetOutcomes(event)
      await apply(event).catch(refuseParking)
      const { hasFailed, failed } = outcomesOf(event)
      if (hasFailed) throw failed
    }
    const [row] = await store.run(tx, read, key)
    if (row?.['revision'] !== String(newest.revision)) throw notApplied(projection, newest)
    return 'applied'
  }
}

/** Another projection of the handler waits for a revision; what is rebuilt cannot wait inside of that one. */
function refuseParking(error: unknown): never {
  throw error instanceof EventParked ? new Error(error.message) : error
}

function notApplied(projection: string, { type, revision }: ReceivedEvent): Error {
  return reject(
    `the handler of ${JSON.stringify(type)} did not apply revision ${revision} to the projection ${JSON.stringify(projection)}, so it cannot rebuild it: name the consumer that does`,
  )
}
