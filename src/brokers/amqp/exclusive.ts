import type { Connection } from 'rabbitmq-client'
import { WaybillError, describeError } from '../../errors.ts'

/**
 * Queues of the type quorum and streams take no notice of `exclusive`: they would give messages to a second process as
 * well, and nobody would hear of it until the order is lost. So a second reader is tried, which must be refused.
 *
 * @throws CONFIGURATION_INVALID
 */
export async function proveAlone(connection: Connection, queue: string): Promise<void> {
  const channel = await connection.acquire({ emitErrorsFromChannel: true })
  channel.on('error', () => undefined)
  await channel.basicQos({ prefetchCount: 1 })
  try {
    await channel.basicConsume({ queue, exclusive: true }, () => undefined)
  } catch (error) {
    if (isTaken(error)) return
    throw error
  }
  throw new WaybillError(
    'CONFIGURATION_INVALID',
    'several processes could read it at once, as every quorum queue: declare it with x-single-active-consumer and ' +
      'set readers to "single-active", or set readers to "shared" where order does not matter',
  )
}

/** The broker says no: to this queue, this user, this virtual host. */
export function isRefusal(error: unknown): boolean {
  const { code } = error as { code?: unknown }
  return code === 'NOT_FOUND' || code === 'ACCESS_REFUSED' || code === 'NOT_ALLOWED'
}

/** Another one reads the queue, or would be allowed to. */
export function isTaken(error: unknown): boolean {
  return isRefusal(error) && describeError(error).includes('exclusive use')
}
