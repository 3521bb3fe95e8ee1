import { defineConfig } from 'vitest/config'

const database = {
  globalSetup: ['test/support/global-setup.ts'],
  setupFiles: ['test/support/setup.ts'],
  hookTimeout: 60_000,
  // They wait more than they work.
  maxWorkers: 3,
}

export default defineConfig({
  test: {
    reporters: ['default', './test/support/reporter.ts'],
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
          sequence: { groupOrder: 2 },
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
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
})
