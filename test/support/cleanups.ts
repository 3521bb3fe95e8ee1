type Cleanup = () => unknown

const cleanups: Cleanup[] = []

/** Runs at the end of this test file, also when a test failed; the last one registered runs first. */
export function atEndOfFile(cleanup: Cleanup): void {
  cleanups.push(cleanup)
}

/** Called by setup.ts. Every cleanup runs, whatever happens to the others. */
export async function runCleanups(): Promise<void> {
  const errors: unknown[] = []
  for (let cleanup = cleanups.pop(); cleanup !== undefined; cleanup = cleanups.pop()) {
    try {
      await cleanup()
    } catch (error) {
      errors.push(error)
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, 'cleaning up after the test file failed')
}
