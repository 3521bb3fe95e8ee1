import { defineConfig } from 'vitest/config'
import { LongestFirst } from './test/support/sequencer.ts'

const database = {
  globalSetup: ['test/support/global-setup.ts'],
  setupFiles: ['test/support/setup.ts'],
  hookTimeout: 60_000,
  // They wait as much as they work.
  maxWorkers: 3,
  sequence: { groupOrder: 2 },
}

export default defineConfig({
  test: {
    reporters: ['default', './test/support/reporter.ts'],
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: ['**/node_modules/**', 'test/**/*.{int,e2e}.test.ts'],
          setupFiles: ['test/support/setup.ts'],
          testTimeout: 10_000,
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: 'types',
          include: [],
          // Errors elsewhere are what `npm run typecheck` is for.
          typecheck: {
            enabled: true,
            only: true,
            include: ['test/**/*.test-d.ts'],
            ignoreSourceErrors: true,
          },
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          ...database,
          name: 'int',
          include: ['test/**/*.int.test.ts'],
          testTimeout: 30_000,
        },
      },
      {
        test: {
          ...database,
          name: 'e2e',
          globalSetup: ['test/support/build.ts', ...database.globalSetup],
          include: ['test/**/*.e2e.test.ts'],
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
})
