import type { Hono, MiddlewareHandler } from 'hono'
import type { Connection } from '../database/connection.ts'
import { usageInvalid } from '../input.ts'
import {
  type ConsumerDeadLetterAction,
  discardConsumerDeadLetters,
  listConsumerDeadLetters,
  retryConsumerDeadLetters,
} from '../operations/consumer-dead-letters.ts'
import { listConsumers } from '../operations/consumers.ts'
import { releaseParked } from '../operations/release-parked.ts'
import type { Telemetry } from '../telemetry/events.ts'
import { readConsumerActionBody, readConsumerDeadLettersQuery, readReleaseBody } from './request.ts'

export interface ConsumerRoutesOptions {
  schema: string
  reader: Connection
  actor: Connection
  telemetry: Telemetry
  /** What every action passes first. */
  guards: readonly [MiddlewareHandler, MiddlewareHandler]
  /** Who decides, and when to end between two chunks. */
  common: (
    body: { decidedBy?: string },
    request: Request,
  ) => { decidedBy: string; signal: AbortSignal; timeLimitMs: number }
  readJson: (request: Request) => Promise<unknown>
}

/** The consumers whose tables are in this database, and their dead letters. */
export function addConsumerRoutes(app: Hono, options: ConsumerRoutesOptions): void {
  const { schema, reader, actor, telemetry, guards, common, readJson } = options
  const path = '/api/v1/consumers/dead-letters'

  async function readAction(
    request: Request,
    more: readonly 'allowOlder'[],
  ): Promise<ConsumerDeadLetterAction & { decidedBy: string }> {
    const { all, ...body } = readConsumerActionBody(await readJson(request), more)
    if ((all === true) === (body.ids !== undefined))
      throw usageInvalid('expected either ids or "all": true, to say which dead letters of the consumer')
    return { ...body, ...common(body, request) }
  }

  app.get('/api/v1/consumers', async (c) => c.json(await listConsumers(reader, schema)))
  app.get(path, async (c) =>
    c.json(await listConsumerDeadLetters(reader, schema, readConsumerDeadLettersQuery(c.req.queries()))),
  )
  app.post(`${path}/retry`, ...guards, async (c) => {
    const action = await readAction(c.req.raw, ['allowOlder'])
    const report = await retryConsumerDeadLetters(actor, schema, action)
    const { consumer, decidedBy } = action
    telemetry.emit('consumer.retried', { consumer, changed: report.changed, decidedBy })
    return c.json(report)
  })
  app.post(`${path}/discard`, ...guards, async (c) => {
    const action = await readAction(c.req.raw, [])
    const { consumer, decidedBy, reason = '' } = action
    const report = await discardConsumerDeadLetters(actor, schema, { ...action, reason })
    telemetry.emit('consumer.discarded', { consumer, changed: report.changed, decidedBy })
    return c.json(report)
  })
  app.post('/api/v1/consumers/release', ...guards, async (c) => {
    const body = readReleaseBody(await readJson(c.req.raw))
    const { decidedBy } = common(body, c.req.raw)
    const released = await releaseParked(actor, schema, { ...body, decidedBy })
    const { consumer, projection, skippedFrom, skippedTo } = released
    const [aggregateType, aggregateId] = released.aggregate
    telemetry.emit('consumer.released', {
      ...{ consumer, projection, aggregateType, aggregateId, skippedFrom, skippedTo, decidedBy },
    })
    return c.json(released)
  })
}
