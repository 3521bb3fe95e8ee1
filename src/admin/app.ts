import { type Context, Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { Connection } from '../database/connection.ts'
import { WaybillError, describeError } from '../errors.ts'
import { discardDeadLetters, listDeadLetters, retryDeadLetters } from '../operations/dead-letters.ts'
import { usageInvalid } from '../input.ts'
import { getEvent, listEvents } from '../operations/list-events.ts'
import { withConsumerResults } from '../operations/consumers.ts'
import type { OpenFactSources } from '../publications/fact-sources.ts'
import { listRelays } from '../operations/relays.ts'
import { readStatus } from '../operations/status.ts'
import type { Telemetry } from '../telemetry/events.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { addConsumerRoutes } from './consumers.ts'
import { type ErrorBody, type HttpOnlyCode, httpOnlyCodes, statusOf } from './errors.ts'
import { requireIntent, requireLoopbackName, requireToken } from './guard.ts'
import { addPages } from './pages.ts'
import { contentSecurityPolicy } from './pages/layout.ts'
import { addPublicationRoutes } from './publications.ts'
import { readActionBody, readDeadLettersQuery, readEventQuery, readEventsQuery } from './request.ts'

/** How the process is, in its own words. */
export interface Health {
  /** False only when a restart would help. */
  readonly live: boolean
  /** False when due work exists and nothing moves. */
  readonly ready: boolean
  /** Why it is not ready, or not live. */
  readonly reason: string | null
}

export interface AdminAppOptions {
  schema: string
  token?: string
  health: () => Health
  metrics: Pick<Metrics, 'render'>
  telemetry: Telemetry
  /** For reading, in short statements. */
  reader: Connection
  /** For actions, which may take longer. */
  actor: Connection
  /** Ends actions under way between two chunks. */
  signal: AbortSignal
  /** Where the facts of publications are looked up. */
  facts: OpenFactSources
}

const maxBodyBytes = 1024 * 1024

/** After this an action answers with what it has done, `complete: false`; the same request goes on with the rest. */
const actionLimitMs = 25_000

/** Where counting stops for whoever asks before a relay has counted: an answer at once is worth more there. */
const quickCountLimit = 10_000

/** All routes of the HTTP server. */
export function createAdminApp(options: AdminAppOptions): Hono {
  const { token, health, metrics, telemetry } = options
  const app = new Hono()
  app.use(async (c, next) => {
    await next()
    c.header('cache-control', 'no-store')
    c.header('x-content-type-options', 'nosniff')
    c.header('x-frame-options', 'DENY')
    c.header('referrer-policy', 'no-referrer')
    c.header('content-security-policy', contentSecurityPolicy)
  })
  app.use(requireLoopbackName(token))
  app.use('/metrics', requireToken(token))
  app.use('/api/*', requireToken(token))

  app.get('/livez', (c) => {
    const { live, reason } = health()
    return c.json({ live, reason: live ? null : reason }, live ? 200 : 503)
  })
  app.get('/readyz', (c) => {
    const { ready, reason } = health()
    return c.json({ ready, reason: ready ? null : reason }, ready ? 200 : 503)
  })
  app.get('/metrics', async (c) => {
    const { contentType, body } = await metrics.render()
    return c.body(body, 200, { 'content-type': contentType })
  })
  addReads(app, options)
  addActions(app, options)
  addPages(app, { ...options, failure })

  app.notFound((c) => {
    const methods = methodsOf(app, c.req.path)
    if (methods.length === 0) return c.json(httpError('NOT_FOUND'), 404)
    return c.json(httpError('METHOD_NOT_ALLOWED'), 405, { allow: methods.join(', ') })
  })
  app.onError((error, c) => {
    const { status, code, message } = failure(error, c)
    if (status === 401) c.header('www-authenticate', 'Bearer')
    return c.json({ error: { code, message } } satisfies ErrorBody, status as ContentfulStatusCode)
  })

  /** What an error is answered with; one without a status is told to the log, and not to the caller. */
  function failure(error: unknown, c: Context): ErrorBody['error'] & { status: number } {
    const status = error instanceof WaybillError ? statusOf(error) : 500
    if (status === 500) {
      telemetry.emit('admin.failed', {
        method: c.req.method,
        path: c.req.path.slice(0, 200),
        error: describeError(error, 500),
      })
    }
    if (error instanceof WaybillError) return { status, code: error.code, message: error.message }
    return { status, ...httpError('INTERNAL').error }
  }
  return app
}

function addReads(app: Hono, { reader, schema }: AdminAppOptions): void {
  app.get('/api/v1/status', async (c) => c.json(await readStatus(reader, schema, quickCountLimit)))
  app.get('/api/v1/relays', async (c) => c.json(await listRelays(reader, schema)))
  app.get('/api/v1/events', async (c) => {
    const { items, next } = await listEvents(reader, schema, readEventsQuery(c.req.queries()))
    return c.json({ items: await withConsumerResults(reader, schema, items), next })
  })
  app.get('/api/v1/events/:id', async (c) => {
    const event = await getEvent(reader, schema, c.req.param('id'), readEventQuery(c.req.queries()))
    return c.json((await withConsumerResults(reader, schema, [event]))[0])
  })
  app.get('/api/v1/dead-letters', async (c) =>
    c.json(await listDeadLetters(reader, schema, readDeadLettersQuery(c.req.queries()))),
  )
}

function addActions(app: Hono, options: AdminAppOptions): void {
  const { reader, actor, schema, token, telemetry, signal, facts } = options
  const guards = [
    requireIntent(token),
    bodyLimit({ maxSize: maxBodyBytes, onError: (c) => c.json(httpError('BODY_TOO_LARGE'), 413) }),
  ] as const
  const common = (body: { decidedBy?: string }, request: Request) => ({
    decidedBy: decider(body.decidedBy, token),
    signal: AbortSignal.any([signal, request.signal]),
    timeLimitMs: actionLimitMs,
  })
  app.post('/api/v1/dead-letters/retry', ...guards, async (c) => {
    const body = readActionBody(await readJson(c.req.raw), [
      'ids',
      'filter',
      'all',
      'allowOlder',
      'reason',
      'decidedBy',
    ])
    const how = { ...body, ...common(body, c.req.raw) }
    const report = await retryDeadLetters(actor, schema, how)
    const { matched, changed } = report
    telemetry.emit('dead_letters.retried', { matched, changed, decidedBy: how.decidedBy })
    return c.json(report)
  })
  app.post('/api/v1/dead-letters/discard', ...guards, async (c) => {
    const body = readActionBody(await readJson(c.req.raw), ['ids', 'filter', 'all', 'reason', 'decidedBy'])
    const how = { ...body, ...common(body, c.req.raw), reason: body.reason ?? '' }
    const report = await discardDeadLetters(actor, schema, how)
    const { matched, changed } = report
    telemetry.emit('dead_letters.discarded', { matched, changed, decidedBy: how.decidedBy })
    return c.json(report)
  })
  addConsumerRoutes(app, { schema, reader, actor, telemetry, guards, common, readJson })
  addPublicationRoutes(app, { facts, guards, readJson, signal, decider: (name) => decider(name, token) })
}

/** The name a caller gives is kept, but marked as what came over HTTP: nobody has checked it. */
function decider(name: string | undefined, token: string | undefined): string {
  const channel = token === undefined ? 'local http' : 'api token'
  return name === undefined || name.trim() === '' ? channel : `${name.trim()} (${channel})`
}

async function readJson(request: Request): Promise<unknown> {
  if (!/^application\/json\s*(;|$)/i.test(request.headers.get('content-type') ?? '')) {
    throw usageInvalid('the body must be JSON, with the header "Content-Type: application/json"')
  }
  try {
    return await request.json()
  } catch (error) {
    if (error instanceof SyntaxError) throw usageInvalid('the body is not valid JSON')
    throw error
  }
}

function httpError(code: HttpOnlyCode): ErrorBody {
  return { error: { code, message: httpOnlyCodes[code] } }
}

/** Method and pattern of every route, as `docs/reference/http.md` lists them. */
export function routesOf(app: Hono): readonly string[] {
  return [
    ...new Set(
      app.routes.filter(({ method }) => method !== 'ALL').map(({ method, path }) => `${method} ${path}`),
    ),
  ]
}

function methodsOf(app: Hono, path: string): string[] {
  return routesOf(app)
    .map((route) => route.split(' ') as [string, string])
    .filter(([, pattern]) => new RegExp(`^${pattern.replaceAll(/:\w+/g, '[^/]+')}$`).test(path))
    .map(([method]) => method)
}
