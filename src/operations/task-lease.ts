import type { Connection } from '../database/connection.ts'
import { inSchema } from '../database/identifiers.ts'

// Work that one relay at a time does for all of them: a row of outbox_tasks each, leased on the database's clock.

/** The tasks that the schema knows. */
export type TaskName = 'sample' | 'prune' | 'audit'

export interface TaskLease {
  db: Connection
  schema: string
  name: TaskName
  /** Id of the relay that asks. */
  owner: string
  /** How long the task stays with an owner that says nothing, in milliseconds. */
  leaseMs: number
}

/**
 * Takes a task when nobody works on it and it was last finished at least `everyMs` ago. A moment in the future (the
 * clock was set back, or the database comes from a copy) does not count.
 */
export async function claimTask(lease: TaskLease, everyMs: number): Promise<boolean> {
  const { rowCount } = await lease.db.query(
    inSchema(
      `UPDATE "waybill".outbox_tasks AS t
       SET owner = $2::text::uuid, leased_until = clock_timestamp() + $3::text::float8 * interval '1 millisecond'
       WHERE t.name = $1 AND (t.owner = $2::text::uuid OR t.leased_until IS NULL OR t.leased_until < clock_timestamp())
         AND (t.finished_at IS NULL OR t.finished_at > clock_timestamp()
              OR t.finished_at <= clock_timestamp() - $4::text::float8 * interval '1 millisecond')`,
      lease.schema,
    ),
    [lease.name, lease.owner, lease.leaseMs, everyMs],
  )
  return rowCount > 0
}

/** Keeps a task that takes longer; false when another owner has it. */
export async function renewTask({ db, schema, name, owner, leaseMs }: TaskLease): Promise<boolean> {
  const { rowCount } = await db.query(
    inSchema(
      `UPDATE "waybill".outbox_tasks AS t
       SET leased_until = clock_timestamp() + $3::text::float8 * interval '1 millisecond'
       WHERE t.name = $1 AND t.owner = $2::text::uuid`,
      schema,
    ),
    [name, owner, leaseMs],
  )
  return rowCount > 0
}

/** Leaves a task with its result; does nothing when another owner has it by now. */
export async function finishTask({ db, schema, name, owner }: TaskLease, result: unknown): Promise<void> {
  await db.query(
    inSchema(
      `UPDATE "waybill".outbox_tasks AS t
       SET owner = NULL, leased_until = NULL, finished_at = clock_timestamp(), result = $3::text::jsonb
       WHERE t.name = $1 AND t.owner = $2::text::uuid`,
      schema,
    ),
    [name, owner, JSON.stringify(result)],
  )
}

/** Leaves a task unfinished, for whoever comes next. */
export async function abandonTask({ db, schema, name, owner }: TaskLease): Promise<void> {
  await db.query(
    inSchema(
      `UPDATE "waybill".outbox_tasks AS t SET owner = NULL, leased_until = NULL
       WHERE t.name = $1 AND t.owner = $2::text::uuid`,
      schema,
    ),
    [name, owner],
  )
}

/** What a task left when it was last finished, with its age by the database's clock; null before the first time. */
export async function readTask(
  db: Connection,
  schema: string,
  name: TaskName,
): Promise<{ result: unknown; ageSeconds: number } | null> {
  const { rows } = await db.query<{ result: unknown; age: number }>(
    inSchema(
      `SELECT t.result AS "result", greatest(0, extract(epoch FROM clock_timestamp() - t.finished_at))::float8 AS "age"
       FROM "waybill".outbox_tasks AS t WHERE t.name = $1 AND t.result IS NOT NULL AND t.finished_at IS NOT NULL`,
      schema,
    ),
    [name],
  )
  const [row] = rows
  return row === undefined ? null : { result: row.result, ageSeconds: row.age }
}
