import type { Connection } from '../../database/connection.ts'
import { inSchema } from '../../database/identifiers.ts'

/** A destination, as the live relays tell of it; `down` when one of them says so. */
export interface DestinationFact {
  readonly name: string
  readonly state: 'up' | 'down' | 'unknown'
  /** Since when, ISO 8601. */
  readonly since: string | null
  readonly error: string | null
}

/** Another version of the program may have written it: what does not have the known form is unknown, not an error. */
export async function findDestinations(db: Connection, schema: string): Promise<readonly DestinationFact[]> {
  const { rows } = await db.query<DestinationFact>(
    inSchema(
      `SELECT DISTINCT ON (d.name) d.name AS "name", d.state AS "state", d.since AS "since", d.error AS "error"
       FROM (
         SELECT d.key AS name, d.value ->> 'since' AS since, d.value ->> 'error' AS error,
                CASE WHEN d.value ->> 'state' IN ('up', 'down') THEN d.value ->> 'state' ELSE 'unknown' END AS state
         FROM "waybill".outbox_relays AS r
         CROSS JOIN LATERAL jsonb_each(
           CASE WHEN jsonb_typeof(r.info -> 'destinations') = 'object' THEN r.info -> 'destinations' ELSE '{}' END
         ) AS d
         WHERE r.expires_at > clock_timestamp()
       ) AS d
       ORDER BY d.name, array_position(ARRAY['down', 'up', 'unknown'], d.state)`,
      schema,
    ),
  )
  return rows
}
