import type { Context, Hono, MiddlewareHandler } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { Connection } from '../database/connection.ts'
import type { OpenFactSources } from '../publications/fact-sources.ts'
import { readAudits } from '../operations/stored-audit.ts'
import { traceNewest } from '../operations/trace-newest.ts'
import { keyOfEvent, tracePublication } from '../publications/trace.ts'
import { hasToken, isToken, requireSameSite } from './guard.ts'
import { loginPage } from './pages/login-page.ts'
import { publicationsPage } from './pages/publications-page.ts'
import { startPage } from './pages/start-page.ts'
import { isFinal, tracePage } from './pages/trace-page.ts'
import { type TraceForm, readNext, readNothing, readTraceForm } from './request.ts'
import { createSessions } from './session.ts'

export interface PagesOptions {
  schema: string
  token?: string
  reader: Connection
  facts: OpenFactSources
  /** What an error is answered with, and told to the log where it is one of our own. */
  failure: (error: unknown, c: Context) => { status: number; message: string }
}

const followSeconds = 3
const emptyForm: TraceForm = { type: '', id: '', revision: '', scope: '', follow: false }

/** The pages for people. They change nothing; where a token is set, a login keeps them. */
export function addPages(app: Hono, { schema, token, reader, facts, failure }: PagesOptions): void {
  const { sources, publications } = facts
  const types = [...publications.keys()]
  const canLogOut = token !== undefined
  const login = addLogin(app, token)

  app.get('/', (c) => c.html(startPage))

  app.get('/trace', login, async (c) => {
    let form = emptyForm
    const common = { types, canLogOut }
    try {
      form = readTraceForm(c.req.queries())
      if (form.type === '' && form.id === '') return await c.html(tracePage({ form, ...common }))
      const trace = await traceNewest(sources, publications, keyOf(form))
      if (form.follow && !isFinal(trace.verdict)) c.header('refresh', String(followSeconds))
      const { intent } = trace.facts
      if (intent.status === 'known') return await c.html(tracePage({ form, trace, ...common }))
      const error = `the outbox cannot be read, so little is known: ${'reason' in intent ? intent.reason : ''}`
      return await c.html(tracePage({ form, trace, error, ...common }), 503)
    } catch (error) {
      const { status, message } = failure(error, c)
      // What is away comes back.
      if (form.follow && status === 503) c.header('refresh', String(followSeconds))
      return c.html(tracePage({ form, error: message, ...common }), status as ContentfulStatusCode)
    }
  })

  app.get('/trace/:eventId', login, async (c) => {
    try {
      readNothing(c.req.queries())
      const key = await keyOfEvent(sources, c.req.param('eventId'))
      const { type, id, revision, scope } = key
      if (revision === null) {
        const trace = await tracePublication(sources, publications, key)
        return await c.html(tracePage({ form: { ...emptyForm, type, id, scope }, trace, types, canLogOut }))
      }
      const query = new URLSearchParams({ type, id, revision: String(revision) })
      if (scope !== '') query.set('scope', scope)
      return c.redirect(`/trace?${query.toString()}`)
    } catch (error) {
      const { status, message } = failure(error, c)
      const page = tracePage({ form: emptyForm, error: message, types, canLogOut })
      return c.html(page, status as ContentfulStatusCode)
    }
  })

  app.get('/publications', login, async (c) => {
    const common = { names: types, canLogOut }
    try {
      readNothing(c.req.queries())
      return await c.html(publicationsPage({ audits: await readAudits(reader, schema), ...common }))
    } catch (error) {
      const { status, message } = failure(error, c)
      return c.html(publicationsPage({ error: message, ...common }), status as ContentfulStatusCode)
    }
  })
}

function keyOf({ type, id, revision, scope }: TraceForm) {
  return { type, id, scope, ...(revision === '' ? {} : { revision }) }
}

/** A browser cannot send the header with the token: it shows the token once, and then a cookie. */
function addLogin(app: Hono, token: string | undefined): MiddlewareHandler {
  const sessions = token === undefined ? undefined : createSessions(token)
  const small = bodyLimit({
    maxSize: 16 * 1024,
    onError: (c) => c.html(loginPage({ next: '/', error: 'this is too long for a token' }), 413),
  })

  app.get('/login', (c) =>
    sessions === undefined ? c.redirect('/') : c.html(loginPage({ next: readNext(c.req.query('next')) })),
  )
  app.post('/login', requireSameSite, small, async (c) => {
    if (token === undefined || sessions === undefined) return c.redirect('/', 303)
    const body = await c.req.parseBody()
    const next = readNext(body['next'])
    if (!isToken(body['token'], token))
      return c.html(loginPage({ next, error: 'this is not the token of this relay' }), 401)
    await sessions.open(c)
    return c.redirect(next, 303)
  })
  app.post('/logout', requireSameSite, (c) => {
    sessions?.close(c)
    return c.redirect(sessions === undefined ? '/' : '/login', 303)
  })

  return async (c, next) => {
    if (sessions === undefined || hasToken(c, token) || (await sessions.isOpen(c))) return next()
    const { pathname, search } = new URL(c.req.url)
    return c.redirect(`/login?${new URLSearchParams({ next: pathname + search }).toString()}`)
  }
}
