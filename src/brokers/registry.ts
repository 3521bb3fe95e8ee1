import { type Spec, configurationInvalid, resolveOptions } from '../options.ts'
import type { Publisher } from '../publishing/publisher.ts'
import { closest, joinPath, show } from '../wording.ts'
import type { Broker } from './broker.ts'

/** One line for each broker: the word of a configuration, and the module, which is loaded when it is needed. */
const modules: Readonly<Record<string, () => Promise<{ broker: Broker }>>> = {
  handler: () => import('./handler.ts'),
  kafka: () => import('./kafka.ts'),
  nats: () => import('./nats.ts'),
  rabbitmq: () => import('./rabbitmq.ts'),
  'redis-streams': () => import('./redis-streams.ts'),
  sns: () => import('./sns.ts'),
  sqs: () => import('./sqs.ts'),
  stdout: () => import('./stdout.ts'),
  webhook: () => import('./webhook.ts'),
}

/** Every `type` that a destination can have. */
export const brokerTypes: readonly string[] = Object.keys(modules)

/**
 * The module of one broker.
 *
 * @throws CONFIGURATION_INVALID for an unknown type, with the nearest known one as a suggestion
 */
export async function loadBroker(type: string, path = 'type'): Promise<Broker> {
  const load = Object.hasOwn(modules, type) ? modules[type] : undefined
  if (load === undefined) {
    const near = closest(type, brokerTypes)
    const hint = near === undefined ? '' : `, did you mean ${JSON.stringify(near)}?`
    throw configurationInvalid([
      `expected ${path} to be one of ${brokerTypes.join(', ')}, got ${show(type)}${hint}`,
    ])
  }
  return (await load()).broker
}

/** The options of every broker, to check a configuration with. Loads none of the brokers' own libraries. */
export async function loadBrokerSpecs(): Promise<Readonly<Record<string, Spec>>> {
  const specs = brokerTypes.map(async (type) => [type, (await loadBroker(type)).options] as const)
  return Object.fromEntries(await Promise.all(specs))
}

/**
 * The publisher of one configured destination.
 *
 * @param options the broker's own, with or without their defaults
 * @throws CONFIGURATION_INVALID, DEPENDENCY_MISSING when the broker's library is not installed
 */
export async function createBrokerPublisher(name: string, type: string, options: object): Promise<Publisher> {
  const path = joinPath('destinations', name)
  const broker = await loadBroker(type, joinPath(path, 'type'))
  return broker.create(name, resolveOptions(broker.options, options, { path }))
}
