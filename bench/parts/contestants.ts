import { relayDefaults } from '../../src/relay/options.ts'
import type { Contestant } from '../child/job.ts'
import type { Kind } from './drain-tables.ts'
import { graphileMissing, hasGraphile } from '../graphile-worker.ts'

/** One that takes part in the drain. */
export interface Entrant {
  key: string
  title: string
  contestant: Contestant
  /** The rows that it drains. */
  kind: Kind
  /** Why it cannot take part. */
  missing?: string
}

const settlesByDelete = 'settle' in relayDefaults
export const deleteMissing = "the relay has no option settle: 'delete' yet"

function waybill(
  key: string,
  title: string,
  options: Extract<Contestant, { kind: 'waybill' }>['options'],
  publisherMs = 0,
): Entrant {
  const impossible = options.settle !== undefined && !settlesByDelete
  return {
    key,
    title: `Waybill, ${title}`,
    contestant: { kind: 'waybill', options, publisherMs },
    kind: 'waybill',
    ...(impossible ? { missing: deleteMissing } : {}),
  }
}

function graphile(key: string, title: string, concurrentJobs: number, localQueueSize: number): Entrant {
  return {
    key,
    title: `graphile-worker, ${title}`,
    contestant: { kind: 'graphile', concurrentJobs, localQueueSize },
    kind: 'graphile',
    ...(hasGraphile() ? {} : { missing: graphileMissing }),
  }
}

export const article: Entrant = {
  key: 'article',
  title: 'the usual relay, a row at a time',
  contestant: { kind: 'article' },
  kind: 'article',
}

export const standard = waybill('standard', '`batchSize` 200 (default)', { batchSize: 200 })
export const thousand = waybill('thousand', '`batchSize` 1000', { batchSize: 1000 })
export const slowPublisher = waybill(
  'publisher_2ms',
  '`batchSize` 1000, publisher of 2 ms a call',
  { batchSize: 1000 },
  2,
)
export const deleting = waybill('deleting', "`batchSize` 1000, `settle: 'delete'`", {
  batchSize: 1000,
  settle: 'delete',
})
/** Events with the ids that a plain INSERT gives them. */
export const randomIds: Entrant = {
  ...waybill('random_ids', '`batchSize` 1000, ids at random', { batchSize: 1000 }),
  kind: 'waybill_random_ids',
}
export const graphilePreset = graphile('graphile_preset', '24 jobs at once, local queue 500', 24, 500)
export const graphileTuned = graphile('graphile_tuned', '100 jobs at once, local queue 2000', 100, 2000)

export const entrants: readonly Entrant[] = [
  article,
  standard,
  thousand,
  slowPublisher,
  deleting,
  randomIds,
  graphilePreset,
  graphileTuned,
]
