import type { Connection } from '../database/connection.ts'

/**
 * One statement at a time: several requests share a connection, and the time limit of a statement must not begin
 * while it waits for its turn.
 */
export function createSerialConnection(connection: Connection): Connection {
  let last: Promise<unknown> = Promise.resolve()
  return {
    ...connection,
    query(...statement) {
      const run = () => connection.query(...statement) as Promise<never>
      const mine = last.then(run, run)
      last = mine
      return mine
    },
  }
}
