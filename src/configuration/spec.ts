import { describeError } from '../errors.ts'
import {
  type Fields,
  type OptionsOf,
  type Spec,
  either,
  extend,
  instance,
  integer,
  list,
  object,
  oneOf,
  record,
  string,
  url,
  variants,
} from '../options.ts'
import { retentionSpec } from '../operations/retention.ts'
import type { Publisher } from '../publishing/publisher.ts'
import { type Route, type RouteRule, createRouter } from '../publishing/routing.ts'
import { relaySpec } from '../relay/options.ts'
import { logLevels } from '../telemetry/log-lines.ts'
import { messageFormats } from '../types.ts'
import { publicationSpec } from '../publications/spec.ts'

const databaseUrl = url({
  protocols: ['postgres', 'postgresql'],
  // postgres://user:12/34@host/db is a valid URL of the host "user", and not what was meant.
  accepts: ({ hash, pathname }) => hash === '' && !pathname.includes('@') && !pathname.slice(1).includes('/'),
})
  .optional()
  .describe(
    'The database with the outbox: `postgres://user:password@host:port/database`. Never printed with its password.',
  )

const schema = string({
  expected: 'a PostgreSQL name of 1 to 63 bytes that does not start with "pg_"',
  accepts: (name) => Buffer.byteLength(name) <= 63 && !/^pg_|\u0000/.test(name) && name.isWellFormed(),
})
  .default('waybill')
  .describe('The PostgreSQL schema of all tables.')

const buckets = integer({ min: 1, max: 1024 })
  .default(64)
  .describe(
    'How many buckets the aggregates are spread over: the most relays that can share the work. Fixed by the first migration.',
  )

const route = object({
  aggregateType: string({ maxLength: 255 })
    .optional()
    .describe('Only events of this aggregate type; `*` stands for any run of characters.'),
  eventType: string({ maxLength: 255 })
    .optional()
    .describe('Only events of this type; `*` stands for any run of characters.'),
  to: string({ maxLength: 255 }).describe('The destination.'),
  topic: string({ maxLength: 255 })
    .optional()
    .describe('Topic, subject, routing key, stream or queue. Left out: `outbox.event.<aggregateType>`.'),
  url: url({ protocols: ['http', 'https'] })
    .optional()
    .describe('Another address than that of the destination, for webhooks.'),
})

const routes = either(
  [
    list(route),
    instance<Route>('a list, or a function of an event', (value) => typeof value === 'function'),
  ] as const,
  (value) => (Array.isArray(value) ? 0 : 1),
)
  .default([])
  .describe(
    'Which event goes where; the first match wins. With one destination and no routes everything goes there. In code also a function of the event.',
  )

const adminSpec = object({
  host: string({ maxLength: 255 })
    .default('127.0.0.1')
    .describe('Address of the HTTP server of the relay. Anything but loopback needs a token.'),
  port: integer({ min: 0, max: 65_535 })
    .default(4747)
    .describe('Its port; 0 takes a free one, which the log tells.'),
  token: string({
    secret: true,
    pattern: /^[\x21-\x7e]+$/,
    expected: 'printable ASCII text without spaces',
  })
    .optional()
    .describe('Bearer token for actions, and for everything when the address is not loopback.'),
})

const logSpec = object({
  level: oneOf(...logLevels)
    .default('info')
    .describe('The least important line that is logged.'),
})

/** A ready publisher, with the format it gets. Only in code. */
export interface PublisherDestination {
  publisher: Publisher
  format?: (typeof messageFormats)[number]
}

/** A destination as a file describes it: the broker's name, the message format, and that broker's own options. */
export interface BrokerDestination {
  type: string
  format: (typeof messageFormats)[number]
  [option: string]: unknown
}

const common: Fields = {
  format: oneOf(...messageFormats)
    .default('debezium')
    .describe('How a message is made from an event.'),
}

const publisher = instance<Publisher>('a publisher', isPublisher)

function isPublisher(value: unknown): boolean {
  const { publish, close, name, capabilities } = (value ?? {}) as Partial<Publisher>
  return (
    typeof publish === 'function' &&
    typeof close === 'function' &&
    typeof name === 'string' &&
    typeof capabilities === 'object'
  )
}

/** Options of each known broker, by the word that a configuration uses for it. */
export type BrokerSpecs = Readonly<Record<string, Spec>>

function destination(brokers: BrokerSpecs) {
  const described = variants(
    'type',
    Object.fromEntries(Object.entries(brokers).map(([type, spec]) => [type, extend(spec, common)])),
  ) as unknown as Spec<BrokerDestination, BrokerDestination, 'required'>
  const ready = object({ publisher, format: oneOf(...messageFormats).optional() })
  return either([described, publisher, ready] as const, (value) => {
    if (typeof value !== 'object' || value === null) return 0
    return 'publish' in value ? 1 : 'publisher' in value ? 2 : 0
  })
}

/** The whole configuration; `docs/reference/configuration.md` is tested against it. */
export function configurationSpec(brokers: BrokerSpecs) {
  return object(
    {
      databaseUrl,
      schema,
      buckets,
      destinations: record(destination(brokers))
        .default({})
        .describe(
          'Where events go: names of your choice, each with a `type` and the options of that broker.',
        ),
      routes,
      relay: relaySpec.default({}).describe('How the relay works.'),
      retention: retentionSpec.default({}).describe('What is kept, and how long.'),
      admin: adminSpec.default({}).describe('The HTTP server of the relay: health, metrics, API.'),
      log: logSpec.default({}).describe('What is logged.'),
      publications: record(publicationSpec)
        .default({})
        .describe('Publications by revision: where their facts stand, and who owns them.'),
    },
    {
      check: ({ destinations, routes, relay, publications, retention }) =>
        checkRoutes(Object.keys(destinations), routes) ?? checkSettle(relay, publications, retention),
    },
  )
}

/** Every route must lead somewhere, and several destinations need routes. Without destinations nobody routes. */
function checkRoutes(names: readonly string[], routes: readonly RouteRule[] | Route): string | undefined {
  if (names.length === 0) return undefined
  try {
    createRouter(routes, names)
    return undefined
  } catch (error) {
    return describeError(error)
  }
}

/** What is removed at once is nowhere to be found later. */
function checkSettle(
  { settle }: { settle: 'mark' | 'delete' },
  publications: object,
  { archive }: { archive?: object | undefined },
): string | undefined {
  if (settle === 'mark') return undefined
  if (Object.keys(publications).length > 0)
    return 'expected relay.settle to be "mark" where there are publications, since their diagnosis needs the rows, got "delete"'
  if (archive !== undefined)
    return 'expected relay.settle to be "mark" where there is retention.archive, since "delete" leaves nothing to archive, got "delete"'
  return undefined
}

/** The configuration as commands get it: checked, complete, frozen. */
export type Configuration = OptionsOf<ReturnType<typeof configurationSpec>>
