import { readFile } from 'node:fs/promises'
import type { Server } from 'node:http'
import { type HttpBindings, createAdaptorServer } from '@hono/node-server'
import { Hono } from 'hono'
import type { Diagnosis } from '../../src/publications/index.ts'
import { type Fault, type Key, found } from './faults.ts'
import type { NotesService } from './notes-service.ts'
import type { PublicList } from './public-list.ts'

export interface LabOptions {
  port: number
  relayUrl: string
  service: NotesService
  list: PublicList
  diagnosis: Diagnosis
  faults: readonly Fault[]
}

/** What the page shows of one note. */
interface NoteState extends Key {
  body: string
  publicRevision: number | null
  publicBody: string | null
  /** `visible`, or what trace says of the newest revision. */
  says: string
  traceUrl: string
}

/** The web server of the lab: the write API, the public list, the consumer's ear, the faults, the page. */
export async function serveLab(options: LabOptions): Promise<{ close(): Promise<void> }> {
  const { port, service, list, faults } = options
  const app = new Hono<{ Bindings: HttpBindings }>()
  /** What each fault has hit and was not healed yet. */
  const injected = new Map<string, Key>()

  app.get('/', async (c) => c.html(await readFile(new URL('page.html', import.meta.url), 'utf8')))
  app.put('/notes/:id', async (c) => {
    const { body } = await c.req.json<{ body?: unknown }>()
    if (typeof body !== 'string') return c.json({ error: 'expected {"body": "text"}' }, 400)
    const { answer } = await service.save(c.req.param('id'), body, c.req.header('x-operation-id'))
    return c.json(answer, 202)
  })
  app.get('/public/notes', async (c) => c.json(await list.list()))
  app.get('/public/notes/:id', async (c) => {
    const shown = await list.read(c.req.param('id'))
    return shown === undefined
      ? c.json({ error: 'no such note' }, 404)
      : c.json(shown.note, 200, shown.headers)
  })
  app.post('/events', (c) => list.source.fetch(c.req.raw))
  app.get('/state', async (c) =>
    c.json({
      notes: await describeNotes(options),
      faults: faults.map(({ name, title }) => ({ name, title, hit: injected.get(name) ?? null })),
    }),
  )
  app.post('/faults/:name', async (c) => {
    const fault = faults.find(({ name }) => name === c.req.param('name'))
    if (fault === undefined) return c.json({ error: `no such fault; there are ${names(faults)}` }, 404)
    if (injected.has(fault.name)) return c.json({ error: 'it is there already: heal it first' }, 409)
    const key = await fault.inject()
    injected.set(fault.name, key)
    return c.json({ ...key, expected: fault.expected })
  })
  app.delete('/faults/:name', async (c) => {
    const fault = faults.find(({ name }) => name === c.req.param('name'))
    const key = injected.get(c.req.param('name'))
    if (fault === undefined || key === undefined) return c.json({ error: 'there is nothing to heal' }, 404)
    await fault.heal(key)
    injected.delete(fault.name)
    return c.json(key)
  })
  app.onError((error, c) => c.json({ error: error.message }, 500))

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

async function describeNotes({ service, list, diagnosis, relayUrl }: LabOptions): Promise<NoteState[]> {
  return Promise.all(
    (await service.list()).map(async ({ id, revision, body }) => {
      const shown = await list.read(id)
      const isVisible = (shown?.note.revision ?? 0) >= revision
      return {
        ...{ id, revision, body },
        publicRevision: shown?.note.revision ?? null,
        publicBody: shown?.note.body ?? null,
        says: isVisible ? 'visible' : await found(diagnosis, { id, revision }),
        traceUrl: `${relayUrl}/trace?type=note&id=${encodeURIComponent(id)}&revision=${revision}`,
      }
    }),
  )
}

function names(faults: readonly Fault[]): string {
  return faults.map(({ name }) => name).join(', ')
}
