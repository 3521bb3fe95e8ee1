import { randomUUID } from 'node:crypto'
import { checkSchemaName } from '../database/identifiers.ts'
import { WaybillError, describeError } from '../errors.ts'
import { resolveOptions } from '../options.ts'
import type { EventCatalogue } from '../outbox/event.ts'
import { aborted, createSharedAbort, pause, within } from '../pause.ts'
import { type SourceObserver } from '../publishing/source.ts'
import { createTelemetry } from '../telemetry/events.ts'
import { loadTraces } from '../telemetry/traces.ts'
import type { Queryable } from '../types.ts'
import { createAttempt } from './attempt.ts'
import { cleanDedupeMemory } from './cleaner.ts'
import type { Consumer, ConsumerOptions } from './consumer-api.ts'
import { createDatabaseWatch } from './database-watch.ts'
import { createGate } from './gate.ts'
import type { Handler } from './handlers.ts'
import { createIntake } from './intake.ts'
import { createKeeper } from './keeper.ts'
import { createLanes } from './lanes.ts'
import { openStore } from './open-store.ts'
import { consumerSpec } from './options.ts'
import { createParking } from './parking.ts'
import { beatEveryMs, createRegistration } from './registration.ts'
import { createInboxStatements } from './statements.ts'
import { createWork } from './work.ts'

const cleanEveryMs = 3_600_000
/** For what is left to write when the grace time is over. */
const lastStatementMs = 2_000

/**
 * A consumer, embeddable in any process: handles each event once, in order for each aggregate.
 *
 *     const consumer = createConsumer({ name: 'billing', database: url, source, handlers: {
 *       'order.created': async ({ event, tx }) => { await tx.query('INSERT INTO invoices …') },
 *     } })
 *     await consumer.start()
 *
 * @throws CONFIGURATION_INVALID
 */
export function createConsumer<Tx = Queryable, Events extends EventCatalogue = EventCatalogue>(
  options: ConsumerOptions<Tx, Events>,
): Consumer {
  const { database, schema: schemaName = 'waybill', source, events, decode, ...rest } = options
  const { handlers: given, telemetry = createTelemetry(), ...written } = rest
  const schema = checkSchemaName(schemaName)
  const tuning = resolveOptions(consumerSpec, written, { path: 'consumer' })
  const handlers = checkHandlers<Tx>(given)
  checkSource(source)
  const { name: consumer } = tuning
  const id = randomUUID()
  const store = openStore(database, { schema, concurrency: tuning.concurrency, isolation: tuning.isolation })
  const stopping = createSharedAbort()
  const givingUp = createSharedAbort()
  const statements = createInboxStatements(schema)
  const keeper = createKeeper(store, statements, consumer)
  const watch = createDatabaseWatch({
    telemetry,
    ping: () => store.query('SELECT 1 AS alive', []),
    stopping: stopping.signal,
  })
  const attempt = createAttempt<Tx>({
    ...{ store, statements, consumer, schema, catalogue: events },
    ...{ handlerTimeoutMs: tuning.handlerTimeoutMs, maxAttempts: tuning.maxAttempts, keeper },
    giveUp: givingUp.signal,
  })
  const parking = createParking({ store, schema, consumer, statements, telemetry })
  const work = createWork<Tx>({
    ...{ tuning, attempt, keeper, database: watch, telemetry, stopping: stopping.signal },
    gate: createGate(Math.min(tuning.concurrency, store.mostTransactions)),
    park: parking.park,
  })
  const lanes = createLanes()
  const intake = createIntake<Tx>({
    ...{ tuning, handlers, decode, work, lanes, keeper, database: watch, telemetry, parking },
    ...{ holding: source.capabilities.holding, stopping: stopping.signal },
  })
  const registration = createRegistration({
    ...{ store, schema, consumer, instanceId: id, subscription: source.subscription },
    handlers: Object.keys(handlers),
  })
  const told = new Set<string>()
  let loops: Promise<void>[] = []
  let started: Promise<void> | undefined
  let stopped: Promise<{ clean: boolean }> | undefined

  async function beat(): Promise<void> {
    for (const { host, processId, subscription } of await registration.beat()) {
      const key = `${host} ${processId} ${subscription}`
      if (told.has(key)) continue
      told.add(key)
      const here = source.subscription ?? Object.keys(handlers).sort().join(', ')
      telemetry.emit('consumer.conflict', { consumer, host, processId, subscription, here })
    }
    watch.works()
  }

  async function clean(): Promise<void> {
    const { dedupeDays } = tuning
    try {
      const deleted = await cleanDedupeMemory({
        store,
        schema,
        consumer,
        dedupeDays,
        signal: stopping.signal,
      })
      telemetry.emit('consumer.cleaned', { consumer, deleted })
    } catch (error) {
      telemetry.emit('consumer.clean_failed', { consumer, error: describeError(error, 500) })
    }
  }

  /** Goes on whatever happens; a database that is away is told once by the watch. */
  async function every(ms: number, step: () => Promise<void>): Promise<void> {
    for (;;) {
      await pause(ms, stopping.signal)
      if (stopping.signal.aborted) return
      await step().catch((error: unknown) => watch.failed(error))
    }
  }

  async function begin(): Promise<void> {
    await loadTraces()
    const first = beat().catch((error: unknown) => {
      if (error instanceof WaybillError && !error.code.startsWith('DATABASE_')) throw error
      watch.failed(error)
    })
    await Promise.race([first, aborted(stopping.signal)])
    if (stopping.signal.aborted) return
    loops = [
      every(beatEveryMs, beat),
      every(tuning.pollIntervalMs, intake.takeKept),
      every(cleanEveryMs, clean),
    ]
    await source.start(intake.receive, { observer: observeSource() })
    telemetry.emit('consumer.started', { consumer, source: source.name, subscription: source.subscription })
  }

  function observeSource(): SourceObserver {
    let downSince: number | undefined
    return {
      down(error) {
        downSince ??= performance.now()
        telemetry.emit('source.down', { consumer, source: source.name, error: describeError(error, 500) })
      },
      up() {
        telemetry.emit('source.up', {
          ...{ consumer, source: source.name },
          downMs: downSince === undefined ? 0 : performance.now() - downSince,
        })
        downSince = undefined
      },
    }
  }

  async function end(graceMs: number): Promise<{ clean: boolean }> {
    stopping.abort()
    const sourceStopped = source.stop({ graceMs: graceMs + lastStatementMs })
    await started?.catch(() => undefined)
    const idle = lanes.idle()
    const clean = await within(idle, graceMs)
    if (!clean) {
      givingUp.abort(new Error('the consumer stops'))
      await within(idle, lastStatementMs)
    }
    await within(sourceStopped, graceMs + lastStatementMs)
    await within(Promise.all(loops), lastStatementMs)
    await within(registration.leave(), lastStatementMs)
    await within(store.close(), lastStatementMs)
    telemetry.emit('consumer.stopped', { consumer, clean })
    return { clean }
  }

  return {
    name: consumer,
    id,
    telemetry,
    start: () => (started ??= begin()),
    stop: ({ graceMs = tuning.stopGraceMs } = {}) => (stopped ??= end(graceMs)),
  }
}

type AnyHandlers<Tx> = Readonly<Record<string, Handler<Tx> | undefined>>

function checkHandlers<Tx>(handlers: unknown): AnyHandlers<Tx> {
  const all = Object.entries(handlers ?? {})
  const wrong = all.find(([, handler]) => typeof handler !== 'function')
  if (all.length > 0 && wrong === undefined) return handlers as AnyHandlers<Tx>
  throw new WaybillError(
    'CONFIGURATION_INVALID',
    wrong === undefined
      ? 'expected consumer.handlers to name at least one event type'
      : `expected consumer.handlers[${JSON.stringify(wrong[0])}] to be a function`,
  )
}

function checkSource(source: unknown): void {
  const { start, stop, capabilities } = (source ?? {}) as Partial<ConsumerOptions['source']>
  if (typeof start === 'function' && typeof stop === 'function' && capabilities !== undefined) return
  throw new WaybillError(
    'CONFIGURATION_INVALID',
    'expected consumer.source to be a source, for example webhookSource({ secret }) of waybill/brokers/webhook',
  )
}
