import type { Connection } from '../database/connection.ts'
import { type OutboxSample, countLimit } from '../telemetry/events.ts'
import { type ConsumersStatus, listConsumers } from './consumers.ts'
import { type DestinationState, type RelaysStatus, type WakeupMode, listRelays } from './relays.ts'
import { readLiveSample, takeSample } from './sample.ts'

export interface OutboxStatus extends RelaysStatus, ConsumersStatus, OutboxSample {
  /** How old the counts are, on the database's clock. */
  readonly sampleAgeSeconds: number
  /** Where counting stops: a count of this size reads `1000000+`. */
  readonly countLimit: number
  /** How the live relays learn of new events; null without a live relay. */
  readonly wakeup: WakeupMode | 'mixed' | null
  /** What the live relays say about each destination: `down` when one of them says so. */
  readonly destinations: Readonly<Record<string, DestinationState>>
}

/**
 * The outbox at a glance: counts and age, relays and their buckets, wake-up, destinations, consumers. Reads the sample
 * that the relays keep; counts itself, up to `limit`, when there is none or no relay lives.
 */
export async function readStatus(db: Connection, schema: string, limit = countLimit): Promise<OutboxStatus> {
  const relays = await listRelays(db, schema)
  const stored = await readLiveSample(db, schema)
  const { sample, ageSeconds } = stored ?? { sample: await takeSample(db, schema, limit), ageSeconds: 0 }
  return {
    ...sample,
    sampleAgeSeconds: Math.round(ageSeconds * 1000) / 1000,
    countLimit: stored === null ? limit : countLimit,
    ...relays,
    wakeup: commonWakeup(relays),
    destinations: mergeDestinations(relays),
    ...(await listConsumers(db, schema)),
  }
}

function commonWakeup({ relays }: RelaysStatus): OutboxStatus['wakeup'] {
  const modes = new Set(relays.map(({ wakeup }) => wakeup).filter((mode) => mode !== null))
  return modes.size > 1 ? 'mixed' : ([...modes][0] ?? null)
}

const severity = { down: 2, up: 1, unknown: 0 } as const

function mergeDestinations({ relays }: RelaysStatus): Record<string, DestinationState> {
  const merged = new Map<string, DestinationState>()
  for (const { destinations } of relays) {
    for (const [name, told] of Object.entries(destinations)) {
      const known = merged.get(name)
      if (known === undefined || severity[told.state] > severity[known.state]) merged.set(name, told)
    }
  }
  return Object.fromEntries([...merged].sort(([a], [b]) => (a < b ? -1 : 1)))
}
