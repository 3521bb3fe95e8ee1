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

function describe({ circuit, failing, lastSuccessStartedAt }: Destination): Record<string, unknown> {
  const since = failing?.told === true && !circuit.open ? failing.since : circuit.since
  const error = circuit.error ?? (failing?.told === true ? failing.error : null)
  return {
    state: error !== null ? 'down' : lastSuccessStartedAt > 0 ? 'up' : 'unknown',
    since: new Date(Date.now() - (performance.now() - since)).toISOString(),
    error: error === null ? null : describeError(error, 300),
  }
}
