import { loadDependency } from '../dependency.ts'
import type { NatsLibrary } from './connection.ts'

/** @throws DEPENDENCY_MISSING */
export async function loadNats(): Promise<NatsLibrary> {
  const transport = await loadDependency(
    'nats',
    '@nats-io/transport-node',
    () => import('@nats-io/transport-node'),
  )
  const { jetstream, jetstreamManager } = await loadDependency(
    'nats',
    '@nats-io/jetstream',
    () => import('@nats-io/jetstream'),
  )
  return { ...transport, jetstream, jetstreamManager }
}
