import type { Hono, MiddlewareHandler } from 'hono'
import { usageInvalid } from '../input.ts'
import { auditPublication } from '../publications/audit.ts'
import { collectFacts } from '../publications/collect.ts'
import { createIntent, listDecisions, replay, visibleRevision } from '../publications/decisions.ts'
import type { OpenFactSources } from '../publications/fact-sources.ts'
import { keyOfEvent, tracePublication } from '../publications/trace.ts'
import { traceNewest } from '../operations/trace-newest.ts'
import { show } from '../wording.ts'
import { readAuditQuery, readDecisionBody, readDecisionsQuery, readTraceQuery } from './request.ts'

export interface PublicationRoutesOptions {
  facts: OpenFactSources
  /** What every action passes first. */
  guards: readonly [MiddlewareHandler, MiddlewareHandler]
  /** Who decides: the name that was given, marked as what came over HTTP. */
  decider: (name: string | undefined) => string
  readJson: (request: Request) => Promise<unknown>
  /** Ends what is under way. */
  signal: AbortSignal
}

/** An audit over HTTP ends after so many milliseconds with what it has, `complete: false`; the command has no limit. */
const auditLimitMs = 25_000

/** Trace, audit and decisions over HTTP: the same objects as the commands give with `--json`. */
export function addPublicationRoutes(app: Hono, options: PublicationRoutesOptions): void {
  const { facts, guards, decider, readJson, signal } = options
  const { sources, publications } = facts

  app.get('/api/v1/trace', async (c) =>
    c.json(await traceNewest(sources, publications, readTraceQuery(c.req.queries()))),
  )
  app.get('/api/v1/trace/:eventId', async (c) => {
    const request = await keyOfEvent(sources, c.req.param('eventId'))
    return c.json(await tracePublication(sources, publications, request))
  })
  app.get('/api/v1/audit', async (c) => {
    const { publication: name, reads } = readAuditQuery(c.req.queries())
    const deadline = performance.now() + auditLimitMs
    const reports = []
    for (const publication of publications.values()) {
      if (name !== undefined && publication.name !== name) continue
      const isOver = () => signal.aborted || c.req.raw.signal.aborted || performance.now() > deadline
      reports.push(await auditPublication(sources, publication, { withReads: reads, isOver }))
    }
    if (name !== undefined && reports.length === 0) throw usageInvalid(`unknown publication ${show(name)}`)
    return c.json({ publications: reports })
  })
  app.get('/api/v1/decisions', async (c) =>
    c.json({ items: await listDecisions(sources.outbox, readDecisionsQuery(c.req.queries())) }),
  )
  app.post('/api/v1/intents', ...guards, async (c) => {
    const { key, reason, decidedBy, given } = readDecisionBody(await readJson(c.req.raw), [
      'eventType',
      'payload',
    ])
    const { eventType, payload } = given
    if (eventType !== undefined && typeof eventType !== 'string')
      throw usageInvalid('expected eventType to be text')
    const made = await createIntent(sources.outbox, publications.get(key.type) ?? null, key, {
      ...{ reason, by: decider(decidedBy) },
      ...(eventType === undefined ? {} : { eventType }),
      ...(payload === undefined ? {} : { payload: JSON.stringify(payload) }),
    })
    return c.json(made, 201)
  })
  app.post('/api/v1/replays', ...guards, async (c) => {
    const { key, reason, decidedBy, given } = readDecisionBody(await readJson(c.req.raw), ['allowOlder'])
    const publication = publications.get(key.type) ?? null
    const made = await replay(sources.outbox, publication, key, {
      ...{ reason, by: decider(decidedBy), allowOlder: given['allowOlder'] === true },
      visibleRevision: visibleRevision(await collectFacts(sources, key, publication)),
    })
    return c.json(made, 201)
  })
}
