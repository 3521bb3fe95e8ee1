import type { Pool } from 'pg'
import { webhookSource } from '../../src/brokers/webhook.ts'
import { createConsumer, projection, reject } from '../../src/consumer/index.ts'
import { noteEvents } from './notes-service.ts'

/** `applied` is the list's own book of what it did, in the order in which it did it. */
export const publicTables = `
  CREATE TABLE public_notes (id text PRIMARY KEY, revision int NOT NULL, body text NOT NULL);
  CREATE TABLE applied (n bigserial PRIMARY KEY, id text NOT NULL, revision int NOT NULL);`

export interface PublicNote {
  id: string
  revision: number
  body: string
}

/** Another service with a database of its own: it shows what was published. */
export function createPublicList({ pool, secret }: { pool: Pool; secret: string }) {
  const source = webhookSource({ secret })
  const publicNotes = projection({ name: 'public_notes' })
  const refused = new Set<string>()
  const cache = new Map<string, { note: PublicNote; since: number }>()
  const indexed: string[] = []

  const consumer = createConsumer({
    ...{ name: 'public-list', database: pool, source, events: noteEvents },
    handlers: {
      'note.published': async ({ event, tx, effects }) => {
        const { id, body } = event.payload
        if (refused.has(id)) throw reject(`the public list takes nothing from ${id}`)
        const { revision } = event
        await publicNotes.apply(tx, event, async () => {
          await tx.query(
            `INSERT INTO public_notes AS p (id, revision, body) VALUES ($1, $2, $3)
             ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, body = excluded.body`,
            [id, String(revision), body],
          )
          await tx.query('INSERT INTO applied (id, revision) VALUES ($1, $2)', [id, String(revision)])
        })
        // Outside of the database: once for each key.
        await effects.once(`search-index:${id}:${revision}`, () => void indexed.push(`${id}:${revision}`))
      },
    },
  })

  async function find(id: string): Promise<PublicNote | undefined> {
    const { rows } = await pool.query<PublicNote>(
      'SELECT id, revision, body FROM public_notes WHERE id = $1',
      [id],
    )
    return rows[0]
  }

  return {
    consumer,
    source,
    refused,
    /** Keys that went to the search index. */
    indexed,
    async list(): Promise<PublicNote[]> {
      return (await pool.query<PublicNote>('SELECT id, revision, body FROM public_notes ORDER BY id')).rows
    },
    /** What a reader gets: from the cache where it has the note, and then it says so. */
    async read(id: string): Promise<{ note: PublicNote; headers: Record<string, string> } | undefined> {
      const cached = cache.get(id)
      if (cached !== undefined) {
        const age = Math.ceil((performance.now() - cached.since) / 1000)
        return { note: cached.note, headers: { 'cache-control': 'max-age=300', age: String(age) } }
      }
      const note = await find(id)
      return note && { note, headers: { 'cache-control': 'no-cache' } }
    },
    /** How often it has applied this revision. */
    async applied(id: string, revision: number): Promise<number> {
      const { rows } = await pool.query<{ times: number }>(
        'SELECT count(*)::int AS times FROM applied WHERE id = $1 AND revision = $2',
        [id, revision],
      )
      return rows[0]!.times
    },
    /** Keeps what is shown now for the next five minutes. */
    async cache(id: string): Promise<void> {
      const note = await find(id)
      if (note !== undefined) cache.set(id, { note, since: performance.now() })
    },
    uncache: (id: string) => void cache.delete(id),
  }
}

export type PublicList = ReturnType<typeof createPublicList>
