import type { Pool } from 'pg'
import { z } from 'zod'
import { pg } from '../../src/clients/pg.ts'
import { createOutbox } from '../../src/index.ts'
import { inTransaction } from '../support/transaction.ts'

export const notesTables = `
  CREATE TABLE notes (
    id text PRIMARY KEY, revision int NOT NULL, body text NOT NULL,
    saved_at timestamptz NOT NULL DEFAULT clock_timestamp());`

export const noteEvents = {
  'note.published': z.object({ id: z.string(), body: z.string() }),
}

const outbox = createOutbox({ client: pg(), events: noteEvents })

/** Each save makes the next revision; its row lock puts the writers of a note in order. */
const nextRevision = `
  INSERT INTO notes AS n (id, revision, body) VALUES ($1, 1, $2)
  ON CONFLICT (id) DO UPDATE SET revision = n.revision + 1, body = excluded.body, saved_at = excluded.saved_at
  RETURNING revision`

export interface Saved {
  id: string
  revision: number
  /** Null where nobody decided to publish. */
  eventId: string | null
  /** What the write API answers: accepted, which is not yet visible. */
  answer: unknown
}

/** @param onSaved hears of each commit */
export function createNotesService(pool: Pool, onSaved: (saved: Saved) => void = () => undefined) {
  const told = (saved: Saved): Saved => {
    onSaved(saved)
    return saved
  }

  return {
    /** The new text, the decision to publish it and the answer: one transaction. */
    save: async (id: string, body: string, operationId?: string): Promise<Saved> =>
      told(
        await inTransaction(pool, async (tx) => {
          const { rows } = await tx.query<{ revision: number }>(nextRevision, [id, body])
          const { revision } = rows[0]!
          const aggregate = ['note', id] as const
          const event = await outbox.publish(tx, {
            ...{ type: 'note.published', aggregate, payload: { id, body }, revision },
          })
          const answer = await outbox.accepted(tx, {
            ...{ aggregate, revision, ...(operationId === undefined ? {} : { operationId }) },
          })
          return { id, revision, eventId: event.id, answer }
        }),
      ),

    /** A path from before the outbox: it saves, and nobody hears of it. */
    async saveOldWay(id: string, body: string): Promise<Saved> {
      const { rows } = await pool.query<{ revision: number }>(nextRevision, [id, body])
      return told({ id, revision: rows[0]!.revision, eventId: null, answer: null })
    },

    async newest(id: string): Promise<{ id: string; revision: number }> {
      const { rows } = await pool.query('SELECT id, revision FROM notes WHERE id = $1', [id])
      return rows[0]
    },

    /** What was saved last, with the beginning of its text. */
    async latest(limit: number): Promise<{ id: string; revision: number; beginning: string }[]> {
      const { rows } = await pool.query(
        'SELECT id, revision, left(body, 400) AS beginning FROM notes ORDER BY saved_at DESC, id LIMIT $1',
        [limit],
      )
      return rows
    },
  }
}

export type NotesService = ReturnType<typeof createNotesService>
