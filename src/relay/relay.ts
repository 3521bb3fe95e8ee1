import { randomUUID } from 'node:crypto'
import type { Connection } from '../database/connection.ts'
import { checkSchemaName } from '../database/identifiers.ts'
import { WaybillError } from '../errors.ts'
import type { Publisher } from '../publishing/publisher.ts'
import { createRouter } from '../publishing/routing.ts'
import { resolveOptions } from '../options.ts'
import { checkSchemaVersion } from '../schema/migrator.ts'
import { packageVersion } from '../version.ts'
import { createTelemetry } from '../telemetry/events.ts'
import { loadTraces } from '../telemetry/traces.ts'
import { Backlog } from './backlog.ts'
import { createRelayConnections } from './connections.ts'
import { type Destination, createDestination } from './destination.ts'
import { describeRelay } from './describe.ts'
import { createDispatcher, mostCalls } from './dispatcher.ts'
import { createHealth } from './health.ts'
import { untilDrained } from './drain.ts'
import { createIntake } from './intake.ts'
import { createLeases } from './leases.ts'
import { createListener } from './listener.ts'
import { type RelayTuning, relaySpec } from './options.ts'
import { createOutcomes } from './outcomes.ts'
import { aborted, createSignal, pause, retryPauseMs, within } from '../pause.ts'
import { createPollingSource } from './polling-source.ts'
import { createPreparation } from './preparation.ts'
import { createReader } from './reader.ts'
import type { DrainReport, Relay, RelayOptions } from './relay-api.ts'
import { createSettler } from './settler.ts'
import { createStatements } from './statements.ts'
import { createReplayer } from './replays.ts'
import { createWakeup } from './wakeup.ts'

const leaseErrorPauseMaxMs = 2_000
/** For a statement under way when the relay stops. */
const lastStatementMs = 2_000
/** Least time between two rounds, in milliseconds, however many hand over at once. */
const leaseRoundAtLeastMs = 100
/** Failed probes after which `drain` takes a destination for away. */
const drainProbes = 3

/**
 * A relay, embeddable in any process.
 *
 * @throws CONFIGURATION_INVALID
 */
export function createRelay(options: RelayOptions): Relay {
  const { databaseUrl, destinations: inputs, routes, telemetry = createTelemetry(), ...rest } = options
  const { schema: schemaName = 'waybill', ...written } = rest
  const schema = checkSchemaName(schemaName)
  const tuning: Readonly<RelayTuning> = resolveOptions(relaySpec, written)
  const id = randomUUID()
  const statements = createStatements(schema)
  const stopping = new AbortController()
  const leaseRound = createSignal()
  let read = false
  let loops: Promise<void>[] = []
  let started: Promise<void> | undefined
  let stopped: Promise<{ clean: boolean }> | undefined

  const connections = createRelayConnections({
    ...{ databaseUrl, schema, leaseMs: tuning.leaseMs },
    onReadSession: () => source.reset(),
  })
  const source = createPollingSource(connections.read, statements)

  const destinations = new Map<string, Destination>()
  for (const [name, input] of Object.entries(inputs)) {
    const destination = createDestination(name, input, {
      probeMaxMs: tuning.probeMaxMs,
      onChange(state, { error, downMs }) {
        if (state === 'down') return telemetry.emit('destination.down', { destination: name, error })
        telemetry.emit('destination.up', { destination: name, downMs })
      },
    })
    destination.publisher.observe?.({
      headerDropped: (dropped) => telemetry.emit('header.dropped', { ...dropped, destination: name }),
    })
    destinations.set(name, destination)
  }
  if (destinations.size === 0) {
    throw new WaybillError(
      'CONFIGURATION_INVALID',
      'expected destinations to name at least one publisher, got none',
    )
  }
  const preparation = createPreparation(destinations, createRouter(routes, [...destinations.keys()]))
  const health = createHealth({
    telemetry,
    leaseMs: tuning.leaseMs,
    due: () => dispatcher.waiting,
    waiting: () => backlog.sleeping,
  })

  // So much that the next statement of marks is full when one ends: half of it costs a fifth of the speed of a drain.
  const capacity = Math.max(4000, tuning.batchSize * tuning.workers * 8)
  const backlog: Backlog = new Backlog({
    capacity,
    destinations: [...destinations.keys()],
    isAway: (name) => destinations.get(name)!.circuit.open,
    onReady: (aggregate) => dispatcher.ready(aggregate),
  })
  const intake = createIntake({
    ...{ backlog, capacity, ...preparation },
    perAggregate: Math.max(100, tuning.batchSize),
  })
  const settler = createSettler({
    connection: connections.mark,
    statements,
    relayId: id,
    settle: tuning.settle,
    onSettled(settlements) {
      for (const settlement of settlements) outcomes.settled(settlement)
      onProgress()
      dispatcher.pump()
    },
    onLost(settlements) {
      leases.lost(new Set(settlements.map(({ entry }) => entry.aggregate.bucket)))
      for (const settlement of settlements) outcomes.dropped(settlement)
      onProgress()
    },
    onOutdated(settlements) {
      for (const settlement of settlements) outcomes.outdated(settlement)
      onProgress()
    },
    onError: (error) => health.failed('mark', error),
    onAnswer: () => health.worked('mark'),
    pause: () => pause(retryPauseMs(2, leaseErrorPauseMaxMs), new AbortController().signal),
  })
  const outcomes = createOutcomes({
    backlog,
    settler,
    tuning,
    telemetry,
    clockOffsetMs: () => leases.clockOffsetMs,
    onRewound: () => wakeup.nudge(),
    onProgress,
  })
  const dispatcher = createDispatcher({
    backlog,
    settler,
    outcomes,
    destinations,
    tuning,
    telemetry,
    isOurs: (bucket) => leases.isOurs(bucket),
    onProgress,
  })
  const leases = createLeases({
    connection: connections.leases,
    statements,
    backlog,
    telemetry,
    relayId: id,
    version: packageVersion(),
    leaseMs: tuning.leaseMs,
    suspectWindow: tuning.batchSize * mostCalls(tuning.workers) * destinations.size,
    info: () => describeRelay(tuning.wakeup === 'poll' ? undefined : listener, destinations),
    wasRead() {
      const was = read
      read = false
      return was
    },
    onOpen: (buckets) => reader.open(buckets),
  })
  const listener =
    tuning.wakeup === 'poll'
      ? undefined
      : createListener({
          database: connections.database,
          telemetry,
          onNotify(about) {
            wakeup.notified()
            if (about === 'buckets') leaseRound.notify()
          },
        })
  const wakeup = createWakeup({
    listener,
    pollIntervalMs: tuning.pollIntervalMs,
    telemetry,
    source,
    // On the reader's own connection: it waits for nobody else's statements.
    async setAsleep(ms) {
      const { rowCount } = await connections.read.query(statements.sleep, [id, ms])
      return rowCount > 0
    },
  })
  const reader = createReader({
    source,
    backlog,
    intake,
    dispatcher,
    wakeup,
    onRead() {
      read = true
      health.worked('read')
      schedule()
    },
    onError: (error) => health.failed('read', error),
  })
  source.onReset(() => reader.rewindAll())
  const replayer = createReplayer({
    ...{
      read: connections.read,
      mark: connections.mark,
      statements,
      relayId: id,
      prepare: preparation.prepare,
      destinations,
      tuning,
    },
    buckets: () => backlog.buckets.values(),
    isOurs: (bucket) => leases.isOurs(bucket),
    telemetry,
    onError: (error) => health.failed('read', error),
  })

  /** Coalesced: called for every settlement and every call. */
  let progressing = false
  function onProgress(): void {
    if (progressing) return
    progressing = true
    setImmediate(() => {
      progressing = false
      health.progressed()
      reader.onProgress()
      if (leases.drained) leaseRound.notify()
      schedule()
    })
  }

  /** One timer for everything that becomes due by itself: retries and probes. */
  let timer: NodeJS.Timeout | undefined
  function schedule(): void {
    if (stopping.signal.aborted) return
    const now = performance.now()
    const next = Math.min(backlog.wake(now), dispatcher.nextPumpAt())
    if (intake.isDue) wakeup.nudge()
    clearTimeout(timer)
    if (next === Infinity) return
    timer = setTimeout(
      () => {
        dispatcher.pump()
        schedule()
      },
      Math.min(Math.max(1, next - now), 60_000),
    )
  }

  async function leaseLoop(): Promise<void> {
    let failures = 0
    while (!stopping.signal.aborted) {
      try {
        const nextMs = await leases.round()
        health.worked('lease')
        failures = 0
        // Work that waited because the lease might have run out.
        dispatcher.pump()
        await leaseRound.wait(nextMs)
        await pause(leaseRoundAtLeastMs - (performance.now() - leases.lastRoundAt), stopping.signal)
      } catch (error) {
        if (stopping.signal.aborted) return
        health.failed('lease', error)
        await pause(retryPauseMs(failures++, leaseErrorPauseMaxMs), stopping.signal)
      }
    }
  }

  /** The calls that a stop waits for may take longer than a lease. */
  async function keepLeases(ended: AbortSignal): Promise<void> {
    for (;;) {
      await pause(tuning.leaseMs / 4, ended)
      if (ended.aborted) return
      await leases.renew().catch((error: unknown) => health.failed('lease', error))
    }
  }

  async function begin(): Promise<void> {
    await loadTraces()
    // A server that does not answer must not keep a stop waiting.
    await Promise.race([checkSchema(connections.leases, schema), aborted(stopping.signal)])
    if (stopping.signal.aborted) return
    health.started()
    listener?.start()
    reader.start()
    loops = [leaseLoop(), replayer.run(stopping.signal)]
    telemetry.emit('relay.started', { relayId: id, wakeup: tuning.wakeup })
  }

  async function end(graceMs: number): Promise<{ clean: boolean }> {
    stopping.abort()
    dispatcher.stop()
    await started?.catch(() => undefined)
    clearTimeout(timer)
    leaseRound.notify()
    const deadline = performance.now() + graceMs
    const ended = new AbortController()
    if (loops.length > 0) void keepLeases(ended.signal)
    await within(reader.stop(), lastStatementMs)
    let clean = await within(dispatcher.idle(), graceMs)
    if (!clean) {
      dispatcher.abort(new Error('the relay stops'))
      await within(dispatcher.idle(), 500)
    }
    clean = (await within(settler.idle(), Math.max(500, deadline - performance.now()))) && clean
    settler.stop()
    ended.abort()
    await within(Promise.all(loops), lastStatementMs)
    if (loops.length > 0) clean = (await within(leases.leave(), lastStatementMs)) && clean
    await Promise.all([
      listener?.stop(),
      connections.leases.close(),
      connections.mark.close(),
      connections.read.close(),
      ...[...destinations.values()].map(({ publisher }) => closePublisher(publisher)),
    ])
    telemetry.emit('relay.stopped', { relayId: id, clean })
    return { clean }
  }

  const relay: Relay = {
    id,
    telemetry,
    start: () => (started ??= begin()),
    stop: ({ graceMs = tuning.stopGraceMs } = {}) => (stopped ??= end(graceMs)),
    async drain() {
      const report: DrainReport = { published: 0, failed: 0, dead: 0, stuck: 0 }
      const off = [
        telemetry.on('batch.finished', ({ published }) => (report.published += published)),
        telemetry.on('event.failed', () => report.failed++),
        telemetry.on('event.dead', () => report.dead++),
      ]
      await relay.start()
      report.stuck = await untilDrained({
        isIdle: drained,
        fatal: () => health.fatal,
        // Asleep it would find out only at its next look that nothing is left.
        nudge: () => reader.quiet || wakeup.nudge(),
        stuck: () => dispatcher.waiting,
        async dueElsewhere() {
          const { rows } = await connections.leases.query<{ due: number }>(statements.dueElsewhere, [id])
          return rows[0]?.due ?? 0
        },
        // The lease, the round in which it is found to have run out, and a database that takes its time.
        patienceMs: tuning.leaseMs * 1.5 + 2_000,
        signal: stopping.signal,
      })
      const { fatal } = health
      await replayer.round(stopping.signal).catch((error: unknown) => health.failed('read', error))
      await relay.stop()
      for (const stop of off) stop()
      if (fatal !== undefined) throw fatal
      return report
    },
    health: () => health.now(),
  }

  function drained(): boolean {
    if (stopping.signal.aborted) return true
    const awayOrDone = [...destinations.values()].every(({ circuit, name }) =>
      circuit.open ? circuit.probes >= drainProbes : !intake.isBehind(name),
    )
    return (
      leases.complete &&
      reader.quiet &&
      !intake.isDue &&
      dispatcher.active === 0 &&
      settler.pending === 0 &&
      dispatcher.startable === 0 &&
      awayOrDone
    )
  }

  return relay
}

/** Schema errors are told at once; a database that is away is waited for. */
async function checkSchema(connection: Connection, schema: string): Promise<void> {
  try {
    await checkSchemaVersion(
      { query: async (text, values) => connection.query(text, values ?? [], { timeoutMs: 5_000 }) },
      schema,
    )
  } catch (error) {
    if (error instanceof WaybillError && !error.code.startsWith('DATABASE_')) {
      await connection.close()
      throw error
    }
  }
}

async function closePublisher(publisher: Publisher): Promise<void> {
  await within(
    publisher.close().catch(() => undefined),
    2_000,
  )
}
