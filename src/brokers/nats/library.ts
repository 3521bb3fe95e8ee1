import type { JetStreamClient, JetStreamManager } from '@nats-io/jetstream'
import type { Authenticator, ConnectionOptions, MsgHdrs, NatsConnection } from '@nats-io/transport-node'
import { loadDependency } from '../dependency.ts'

/** The parts of the client's two packages that are used, which are loaded only when they are. */
export interface NatsLibrary {
  connect(options: ConnectionOptions): Promise<NatsConnection>
  credsAuthenticator(creds: Uint8Array): Authenticator
  headers(): MsgHdrs
  jetstream(connection: NatsConnection): JetStreamClient
  jetstreamManager(connection: NatsConnection, options: { checkAPI: boolean }): Promise<JetStreamManager>
}

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
