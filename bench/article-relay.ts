import pg from 'pg'

/**
 * The relay of the article that the pattern is usually learned from, statement by statement: one transaction around
 * SELECT … FOR UPDATE SKIP LOCKED LIMIT 100 ordered by created_at, one publish and one UPDATE for each row. It has a
 * table of its own with the article's columns and its partial index.
 */
export const articleTable = `
  CREATE TABLE article_events (
    id             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    aggregate_type varchar(100) NOT NULL,
    aggregate_id   varchar(100) NOT NULL,
    event_type     varchar(100) NOT NULL,
    payload        jsonb NOT NULL,
    attempts       int NOT NULL DEFAULT 0,
    created_at     timestamptz NOT NULL DEFAULT now(),
    processed_at   timestamptz
  );
  CREATE INDEX idx_outbox_unprocessed ON article_events (created_at) WHERE processed_at IS NULL;`

const maxAttempts = 5
const batchSize = 100

export async function drainArticle(
  databaseUrl: string,
  publish: (payload: unknown) => Promise<void>,
): Promise<number> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  let published = 0
  try {
    for (;;) {
      await client.query('BEGIN')
      const { rows } = await client.query<{ id: string; payload: unknown }>(
        `SELECT id, aggregate_type, aggregate_id, event_type, payload FROM article_events
         WHERE processed_at IS NULL AND attempts < $1 ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED`,
        [maxAttempts, batchSize],
      )
      for (const row of rows) {
        await publish(row.payload)
        await client.query('UPDATE article_events SET processed_at = NOW() WHERE id = $1', [row.id])
        published++
      }
      await client.query('COMMIT')
      if (rows.length === 0) return published
    }
  } finally {
    await client.end()
  }
}
