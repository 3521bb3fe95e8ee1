import { afterAll } from 'vitest'
import { runCleanups } from './cleanups.ts'

// Registered before any hook of the test file, so it runs after all of them.
afterAll(runCleanups)
