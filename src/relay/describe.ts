import { describeError } from '../errors.ts'
import type { Destination } from './destination.ts'
import type { Listener } from './listener.ts'

/** What a relay tells of itself in `outbox_relays.info`, for `status` and the dashboard. */
export function describeRelay(
  listener: Pick<Listener, 'state'> | undefined,
  destinations: ReadonlyMap<string, Destination>,
): Record<string, unknown> {
  return {
    wakeup: listener === undefined ? 'poll' : listener.state === 'pooled' ? 'pooled' : 'notify',
    destinations: Object.fromEntries(
      [...destinations].map(([name, destination]) => [name, describe(destination)]),
    ),
  }
}

function describe({ circuit, lastSuccessStartedAt }: Destination): Record<string, unknown> {
  return {
    state: circuit.open ? 'down' : lastSuccessStartedAt > 0 ? 'up' : 'unknown',
    since: new Date(Date.now() - (performance.now() - circuit.since)).toISOString(),
    error: circuit.error === null ? null : describeError(circuit.error, 300),
  }
}
