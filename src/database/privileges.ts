/**
 * The privileges that a role needs, by the name of the object; `schema` is the schema itself. `docs/guides/roles.md`
 * grants the same, and a test compares the two.
 */
export type Privileges = Readonly<Record<string, string>>

/** Calls `publish` or inserts by itself; `publication_heads` only for events with a revision. */
export const writerPrivileges: Privileges = Object.freeze({
  schema: 'USAGE',
  outbox_events: 'INSERT',
  publication_heads: 'SELECT, INSERT, UPDATE',
})

/** Runs the relay with its retention, and the commands and actions that retry or discard. */
export const relayPrivileges: Privileges = Object.freeze({
  schema: 'USAGE',
  schema_version: 'SELECT',
  outbox_events: 'SELECT, UPDATE, DELETE',
  outbox_events_position_seq: 'SELECT',
  outbox_dead_letters: 'SELECT',
  outbox_relays: 'SELECT, INSERT, UPDATE, DELETE',
  outbox_buckets: 'SELECT, UPDATE',
  outbox_tasks: 'SELECT, UPDATE',
  publication_heads: 'SELECT, INSERT, UPDATE',
  publication_intents: 'SELECT',
  replays: 'SELECT, UPDATE',
  decisions: 'SELECT, INSERT',
  processed_events: 'SELECT',
  consumer_messages: 'SELECT, UPDATE, DELETE',
  consumer_dead_letters: 'SELECT',
  consumers: 'SELECT',
  consumer_instances: 'SELECT',
  projection_revisions: 'SELECT, INSERT, UPDATE',
})

/** Handles events: the inbox, effects and projections. */
export const consumerPrivileges: Privileges = Object.freeze({
  schema: 'USAGE',
  schema_version: 'SELECT',
  processed_events: 'SELECT, INSERT, UPDATE, DELETE',
  consumer_messages: 'SELECT, INSERT, UPDATE, DELETE',
  consumers: 'SELECT, INSERT, UPDATE',
  consumer_instances: 'SELECT, INSERT, UPDATE, DELETE',
  projection_revisions: 'SELECT, INSERT, UPDATE, DELETE',
  consumer_effects: 'SELECT, INSERT, DELETE',
  consumer_dead_letters: 'SELECT',
  decisions: 'INSERT',
})

/** Migrates: makes the schema, and owns it with everything in it. */
export const ownerPrivileges: Privileges = Object.freeze({ schema: 'CREATE, USAGE' })

const ownObjects = new Set([
  ...Object.keys({ ...writerPrivileges, ...relayPrivileges, ...consumerPrivileges }),
  ...['outbox_bucket', 'outbox_wakeup', 'outbox_own_intent', 'outbox_has_intent', 'outbox_publish_intents'],
])

/** True for the name of a table, view, sequence or function that `migrate` makes. */
export function isOwnObject(name: string): boolean {
  return ownObjects.has(name)
}
