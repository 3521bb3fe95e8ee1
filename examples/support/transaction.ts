import type { Pool, PoolClient } from 'pg'

/** Runs `work` in one transaction: all of it is committed, or nothing is. */
export async function inTransaction<T>(pool: Pool, work: (tx: PoolClient) => Promise<T>): Promise<T> {
  const tx = await pool.connect()
  let broken = false
  try {
    await tx.query('BEGIN')
    const result = await work(tx)
    const { command } = await tx.query('COMMIT')
    // PostgreSQL answers the COMMIT of a failed transaction with ROLLBACK, and pg takes that for success.
    if (command !== 'COMMIT') throw new Error('a statement of the transaction failed, so it was rolled back')
    return result
  } catch (error) {
    await tx.query('ROLLBACK').catch(() => (broken = true))
    throw error
  } finally {
    tx.release(broken)
  }
}
