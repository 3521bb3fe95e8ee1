import { createBrokerPublisher } from '../brokers/registry.ts'
import type { Configuration } from '../configuration/spec.ts'
import type { DestinationInput } from '../relay/destination.ts'

/**
 * The publishers of the configured destinations; ready ones stay as they are.
 *
 * @throws CONFIGURATION_INVALID, DEPENDENCY_MISSING; what was made before is closed again
 */
export async function createDestinations(
  configured: Configuration['destinations'],
): Promise<Record<string, DestinationInput>> {
  const made = new Map<string, DestinationInput>()
  const own: { close(): Promise<void> }[] = []
  try {
    for (const [name, destination] of Object.entries(configured)) {
      if ('publish' in destination || 'publisher' in destination) {
        made.set(name, destination as DestinationInput)
        continue
      }
      const { type, format, ...options } = destination
      const publisher = await createBrokerPublisher(name, type, options)
      own.push(publisher)
      made.set(name, { publisher, format })
    }
    return Object.fromEntries(made)
  } catch (error) {
    await Promise.allSettled(own.map((publisher) => publisher.close()))
    throw error
  }
}
