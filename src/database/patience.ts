/**
 * For a step `patience` of a statement, which ends its patience with rows that somebody else has locked: what comes
 * after `step` waits at most a quarter of a second for each (SQLSTATE 55P03, see `isLockTimeout`). For statements that
 * hold rows that others need, as those of the buckets: whoever locks one event and goes for lunch must not stop the
 * leases.
 */
export function patienceAfter(step: string): string {
  return `SELECT set_config('lock_timeout', '250ms', true) FROM (SELECT count(*) FROM ${step}) AS locked`
}

/** To be asked for before the rows are looked up. */
export const hasPatience = 'EXISTS (SELECT FROM patience)'
