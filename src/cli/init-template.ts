/** What `waybill init` writes, by the ending of the file; each works as it stands once DATABASE_URL is set. */
export const templates: Readonly<Record<string, (schema: string) => string>> = {
  '.yaml': yaml,
  '.yml': yaml,
  '.ts': typescript,
}

function yaml(schema: string): string {
  return `# Configuration of Waybill. A key that does not exist and a value that does not fit are refused, with what would.
# \${NAME} takes the value of an environment variable: keep secrets there.
# Each single value can be overridden by a variable (relay.batchSize: WAYBILL_RELAY_BATCH_SIZE).

# The database with the outbox.
databaseUrl: \${DATABASE_URL}

# The PostgreSQL schema of all tables.
schema: ${JSON.stringify(schema)}

# Where events go. Names are yours; each destination has a type and the options of that broker.
destinations:
  console:
    type: stdout

  # hook:
  #   type: webhook
  #   url: https://example.com/events
  #   secret: \${HOOK_SECRET} # signs each request (Standard Webhooks)

  # log:
  #   type: kafka
  #   brokers: ["127.0.0.1:9092"]

  # bus:
  #   type: rabbitmq
  #   url: \${AMQP_URL}
  #   exchange: outbox

# Which event goes where: the first match wins, * stands for anything. With one destination none is needed.
# routes:
#   - { aggregateType: order, to: hook }
#   - { eventType: invoice.*, to: bus, topic: billing }
#   - { to: console }

# How the relay works; these are the defaults.
# relay:
#   batchSize: 200 # most messages for one call of a publisher
#   workers: 2 # calls under way at once for each destination
#   maxAttempts: 8 # counted failures until an event becomes a dead letter; an outage counts nothing
#   afterDeadLetter: continue # hold: later events of the aggregate wait until someone decides
#   settle: mark # delete: published events leave the table at once, without history
#   publishTimeoutMs: 10000 # limit for one call of a publisher
#   leaseMs: 10000 # how long the work of a relay that died waits for another one
#   wakeup: auto # poll: no notifications, where writers use PREPARE TRANSACTION
#   pollIntervalMs: 1000 # longest pause between two looks for work without a notification
#   retryBaseMs: 1000 # first pause after a failure of one event; it doubles each time
#   retryMaxMs: 300000 # longest pause between two tries of one event
#   probeMaxMs: 30000 # longest pause between two probes of a destination that is away
#   outageGraceMs: 900000 # a 500 or a nack that goes on for so long counts, though no other event gets through
#   stopGraceMs: 15000 # time for the work that is under way at a clean stop

# Published events are removed after this time; dead letters stay.
# retention:
#   processedDays: 7

# Events with a revision, by aggregate type: where "waybill trace" and "waybill audit" find what became of one.
# publications:
#   order:
#     source: { table: orders } # your own table, with the columns id and revision
#     pendingLimitSeconds: 30 # an intent that is pending for longer is a symptom
#     consumers: [billing] # names of createConsumer
#     projections: [public_orders] # names of projection()
#     reads:
#       - { name: shop, url: "https://example.com/orders/{id}", revision: body.revision }

# Health, metrics and the API of the relay.
# admin:
#   host: 127.0.0.1
#   port: 4747
#   token: \${WAYBILL_TOKEN} # needed when host is not loopback

# log:
#   level: info
`
}

function typescript(schema: string): string {
  return `import { defineConfig } from 'waybill/config'

// Configuration of Waybill. The compiler knows every key; a wrong one is refused, with what would be right.
// '\${NAME}' takes the value of an environment variable: keep secrets there.
// Each single value can be overridden by a variable (relay.batchSize: WAYBILL_RELAY_BATCH_SIZE).
export default defineConfig({
  // The database with the outbox.
  databaseUrl: '\${DATABASE_URL}',

  // The PostgreSQL schema of all tables.
  schema: ${JSON.stringify(schema)},

  // Where events go. Names are yours; each destination has a type and the options of that broker,
  // or is a publisher that you made yourself.
  destinations: {
    console: { type: 'stdout' },

    // hook: { type: 'webhook', url: 'https://example.com/events', secret: '\${HOOK_SECRET}' },

    // log: { type: 'kafka', brokers: ['127.0.0.1:9092'] },

    // bus: { type: 'rabbitmq', url: '\${AMQP_URL}', exchange: 'outbox' },
  },

  // Which event goes where: the first match wins, * stands for anything. With one destination none is needed.
  // May also be a function of the event.
  // routes: [
  //   { aggregateType: 'order', to: 'hook' },
  //   { eventType: 'invoice.*', to: 'bus', topic: 'billing' },
  //   { to: 'console' },
  // ],

  // How the relay works; these are the defaults.
  // relay: {
  //   batchSize: 200, // most messages for one call of a publisher
  //   workers: 2, // calls under way at once for each destination
  //   maxAttempts: 8, // counted failures until an event becomes a dead letter; an outage counts nothing
  //   afterDeadLetter: 'continue', // 'hold': later events of the aggregate wait until someone decides
  //   settle: 'mark', // 'delete': published events leave the table at once, without history
  //   publishTimeoutMs: 10_000, // limit for one call of a publisher
  //   leaseMs: 10_000, // how long the work of a relay that died waits for another one
  //   wakeup: 'auto', // 'poll': no notifications, where writers use PREPARE TRANSACTION
  //   pollIntervalMs: 1_000, // longest pause between two looks for work without a notification
  //   retryBaseMs: 1_000, // first pause after a failure of one event; it doubles each time
  //   retryMaxMs: 300_000, // longest pause between two tries of one event
  //   probeMaxMs: 30_000, // longest pause between two probes of a destination that is away
  //   outageGraceMs: 900_000, // a 500 or a nack that goes on for so long counts, though no other event gets through
  //   stopGraceMs: 15_000, // time for the work that is under way at a clean stop
  // },

  // Published events are removed after this time; dead letters stay.
  // retention: { processedDays: 7 },

  // Events with a revision, by aggregate type: where "waybill trace" and "waybill audit" find what became of one.
  // publications: {
  //   order: {
  //     source: { table: 'orders' }, // your own table, with the columns id and revision
  //     pendingLimitSeconds: 30, // an intent that is pending for longer is a symptom
  //     consumers: ['billing'], // names of createConsumer
  //     projections: ['public_orders'], // names of projection()
  //     reads: [{ name: 'shop', url: 'https://example.com/orders/{id}', revision: 'body.revision' }],
  //   },
  // },

  // Health, metrics and the API of the relay; the token is needed when host is not loopback.
  // admin: { host: '127.0.0.1', port: 4747, token: '\${WAYBILL_TOKEN}' },

  // log: { level: 'info' },
})
`
}
