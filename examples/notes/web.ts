import { readFile } from 'node:fs/promises'
import type { Server } from 'node:http'
import { type HttpBindings, createAdaptorServer } from '@hono/node-server'
import { type Context, Hono } from 'hono'
import { z } from 'zod'
import { hasCode } from '../../src/index.ts'
import { FaultRefused } from './fault-board.ts'
import { type StateParts, createState } from './state.ts'

export interface LabOptions extends StateParts {
  port: number
  /** The line after which another terminal knows the command `waybill`. */
  commandLine: string
}

type App = Hono<{ Bindings: HttpBindings }>

const text = z
  .string('must be a text')
  .refine((given) => given.trim() !== '', 'must not be blank')
  .refine(
    (given) => given.isWellFormed() && !given.includes('\0'),
    'must be Unicode without the character NUL',
  )
const note = z.object({
  id: text.max(60, 'must have at most 60 characters'),
  body: text,
  operationId: z.string().optional(),
})

/** The web server of the lab: the write API, the public list, the consumer's ear, the faults, the page. */
export async function serveLab(options: LabOptions): Promise<{ close(): Promise<void> }> {
  const { port, list } = options
  const app: App = new Hono()
  addPage(app, options)
  addWriteApi(app, options)
  app.get('/public/notes', async (c) => c.json(await list.list()))
  app.get('/public/notes/:id', async (c) => {
    const shown = await list.read(c.req.param('id'))
    return shown === undefined
      ? c.json({ error: 'no such note' }, 404)
      : c.json(shown.note, 200, shown.headers)
  })
  app.post('/events', (c) => list.source.fetch(c.req.raw))
  addFaults(app, options)
  app.notFound((c) => c.json({ error: `there is no ${c.req.method} ${c.req.path}` }, 404))
  app.onError(answerError)

  const server = createAdaptorServer({ fetch: app.fetch }) as Server
  await new Promise<void>((done, fail) => server.once('error', fail).listen(port, '127.0.0.1', done))
  return {
    close: () =>
      new Promise((done) => {
        server.close(() => done())
        server.closeAllConnections()
      }),
  }
}

function addPage(app: App, options: LabOptions): void {
  const { pagesUrl, commandLine } = options
  const state = createState(options)
  const file = (path: string) => readFile(new URL(path, import.meta.url), 'utf8')
  app.get('/', async (c) => c.html(await file('page.html')))
  app.get('/readme', async (c) => c.text(await file('README.md')))
  app.get('/guide', async (c) => c.text(await file('../../docs/guides/diagnosis.md')))
  app.get('/state', async (c) => c.json({ pagesUrl, commandLine, ...(await state()) }))
}

function addWriteApi(app: App, { service }: LabOptions): void {
  app.put('/notes/:id', async (c) => {
    const given: unknown = await c.req.json().catch(() => null)
    const asked = note.safeParse({
      ...(typeof given === 'object' ? given : {}),
      id: c.req.param('id'),
      operationId: c.req.header('x-operation-id'),
    })
    if (!asked.success) {
      const [{ path, message }] = asked.error.issues as [z.core.$ZodIssue]
      return c.json({ error: `expected {"body": "text"}: ${path.join('.')} ${message}` }, 400)
    }
    const { id, body, operationId } = asked.data
    const { answer } = await service.save(id, body, operationId)
    return c.json(answer, 202)
  })
}

function addFaults(app: App, { board }: LabOptions): void {
  app.post('/faults/:name', async (c) => {
    const { fault, key } = await board.inject(c.req.param('name'))
    return c.json({ ...key, expected: fault.expected })
  })
  app.delete('/faults/:name', async (c) => c.json(await board.mend(c.req.param('name'))))
}

function answerError(error: Error, c: Context): Response {
  if (error instanceof FaultRefused) return c.json({ error: error.message }, error.status)
  const isWrong = hasCode(error, 'EVENT_INVALID') || hasCode(error, 'PAYLOAD_INVALID')
  return c.json({ error: error.message }, isWrong ? 400 : 500)
}
