import { describeError, hasCode } from '../errors.ts'
import { decodeDelivery, substituteId } from '../publishing/decoder.ts'
import { within } from '../pause.ts'
import { brokerUnavailable } from '../publishing/publisher.ts'
import { decodeRebuild } from '../publishing/rebuild-message.ts'
import type { ReceivedEvent } from '../publishing/received-event.ts'
import type { Delivery, DeliveryAnswer, Receiver } from '../publishing/source.ts'
import type { Telemetry } from '../telemetry/events.ts'
import type { DatabaseWatch } from './database-watch.ts'
import { type Handler, findHandler } from './handlers.ts'
import { type Job, createJob } from './job.ts'
import type { Keeper, KeptMessage } from './keeper.ts'
import { type Lanes, laneKey } from './lanes.ts'
import type { ConsumerTuning } from './options.ts'
import type { Parking } from './parking.ts'

export interface IntakeOptions<Tx> {
  tuning: ConsumerTuning
  handlers: Readonly<Record<string, Handler<Tx> | undefined>>
  decode: ((delivery: Delivery) => ReceivedEvent | null) | undefined
  work: (job: Job, handler: Handler<Tx>) => Promise<DeliveryAnswer>
  lanes: Lanes
  keeper: Keeper
  database: DatabaseWatch
  telemetry: Telemetry
  parking: Parking
  holding: boolean
  stopping: AbortSignal
}

export interface Intake {
  /** What the source calls. */
  readonly receive: Receiver
  /** Takes what waits in the database: dead letters that were put back, parked events whose turn it is, rebuilds. */
  takeKept(): Promise<void>
}

/** Messages of one look into the database. */
const mostKept = 100
/** Unknown types that are told; a source that invents them for each event must not fill the memory. */
const mostTold = 1_000

const done: DeliveryAnswer = Object.freeze({ status: 'done' })

/** Makes events of messages and puts each into the queue of its aggregate. */
export function createIntake<Tx>(options: IntakeOptions<Tx>): Intake {
  const { tuning, handlers, decode = decodeDelivery, work, lanes, keeper } = options
  const { database, telemetry, parking, holding, stopping } = options
  const { name: consumer, unknownTypes } = tuning
  const told = new Set<string>()
  const keptUnderWay = new Set<string>()

  function receive(delivery: Delivery): Promise<DeliveryAnswer> {
    if (stopping.aborted) return Promise.resolve(unavailable('the consumer stops'))
    let event: ReceivedEvent | null
    try {
      event = decode(delivery)
    } catch (error) {
      return lanes.run(`invalid ${delivery.key}`, () => buryInvalid(delivery, error))
    }
    if (event === null) return Promise.resolve(done)
    const handler = findHandler(handlers, event.type)
    if (handler !== undefined) return enqueue(createJob(event, delivery, { holding }), handler)
    if (unknownTypes === 'skip') {
      skipped(event.type)
      return Promise.resolve(done)
    }
    const { type } = event
    return lanes.run(laneKey(event), () => bury(event, delivery, `there is no handler for the type ${type}`))
  }

  function enqueue(job: Job, handler: Handler<Tx>): Promise<DeliveryAnswer> {
    return lanes.run(laneKey(job.event), async () => {
      const answer = await work(job, handler)
      // Before the next of the aggregate: what waited for this revision comes first.
      await releaseParked(job, handler)
      return answer
    })
  }

  async function releaseParked(job: Job, handler: Handler<Tx>): Promise<void> {
    try {
      for (let next = await parking.next(job); next !== undefined && !stopping.aborted;) {
        const event = decode(next.delivery)
        if (event === null) return
        const parked = createJob(event, next.delivery, { kept: true, attempts: next.attempts })
        await work(parked, findHandler(handlers, event.type) ?? handler)
        next = await parking.next(parked)
      }
    } catch (error) {
      // The next look finds it.
      database.failed(error)
    }
  }

  function skipped(eventType: string): void {
    if (told.has(eventType) || told.size >= mostTold) return
    told.add(eventType)
    telemetry.emit('consumer.skipped', { consumer, eventType })
  }

  async function buryInvalid(delivery: Delivery, error: unknown): Promise<DeliveryAnswer> {
    const reason = describeError(error, 2_000)
    const known = hasCode(error, 'DELIVERY_INVALID') ? error.details['eventId'] : undefined
    const eventId = typeof known === 'string' ? known : substituteId(delivery)
    return persist(delivery, async () => {
      const kept = await keeper.bury({ eventId }, delivery, { error: reason, attempts: 0 })
      if (!kept) return
      telemetry.emit('consumer.invalid', { consumer, eventId, origin: delivery.origin, error: reason })
    })
  }

  async function bury(event: ReceivedEvent, delivery: Delivery, error: string): Promise<DeliveryAnswer> {
    const { id: eventId, type: eventType, aggregateType, aggregateId } = event
    return persist(delivery, async () => {
      const kept = await keeper.bury({ ...event, eventId }, delivery, { error, attempts: 0 })
      if (!kept) return
      telemetry.emit('consumer.dead', {
        ...{ eventId, eventType, aggregateType, aggregateId, attempt: 1 },
        ...{ consumer, error },
      })
    })
  }

  /** Again and again while the database is away. */
  async function persist(delivery: Delivery, write: () => Promise<void>): Promise<DeliveryAnswer> {
    for (;;) {
      try {
        await write()
        return done
      } catch (error) {
        database.failed(error)
        if (!holding) return unavailable('the database is away', 1_000)
        await database.back(delivery.lost)
        if (stopping.aborted || delivery.lost?.aborted === true) return unavailable('the consumer stops')
      }
    }
  }

  /** Undefined where it cannot be taken, or is under way already. */
  function takeOne(message: KeptMessage): Promise<unknown> | undefined {
    const { eventId, delivery } = message
    if (keptUnderWay.has(eventId)) return undefined
    let job: Job | undefined
    try {
      job = message.isRebuild ? rebuildJob(message) : keptJob(decode(delivery), message)
    } catch (error) {
      return lanes.run(`invalid ${delivery.key}`, () => buryInvalid(delivery, error))
    }
    const handler = job === undefined ? undefined : findHandler(handlers, job.event.type)
    if (job === undefined || handler === undefined) return undefined
    keptUnderWay.add(eventId)
    return enqueue(job, handler).finally(() => keptUnderWay.delete(eventId))
  }

  async function takeKept(): Promise<void> {
    for (;;) {
      for (const message of await keeper.toRetry(mostKept)) void takeOne(message)
      for (const message of await parking.due(mostKept)) void takeOne(message)
      const rebuilds = await keeper.toRebuild(mostKept)
      const taken = rebuilds.map(takeOne).filter((job) => job !== undefined)
      // There may be a million more of them; the others wait for the next look.
      const isFull = rebuilds.length === mostKept && taken.length > 0
      if (!isFull || !(await within(Promise.all(taken), tuning.pollIntervalMs)) || stopping.aborted) return
    }
  }

  return { receive, takeKept }
}

function keptJob(event: ReceivedEvent | null, { delivery, attempts }: KeptMessage): Job | undefined {
  return event === null ? undefined : createJob(event, delivery, { kept: true, attempts })
}

function rebuildJob({ eventId, delivery, attempts }: KeptMessage): Job {
  const rebuild = decodeRebuild(Buffer.from(delivery.body).toString())
  const event = { ...rebuild.events.at(-1)!, id: eventId }
  return createJob(event, delivery, { kept: true, attempts, rebuild })
}

function unavailable(why: string, afterMs = 0): DeliveryAnswer {
  return { status: 'again', afterMs, error: brokerUnavailable(why) }
}
