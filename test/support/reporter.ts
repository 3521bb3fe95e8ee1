import type { Reporter, SerializedError, TestCase, TestModule, TestSuite, Vitest } from 'vitest/node'
import type {} from './services.ts'

/**
 * Closes a run with a table of what was skipped for want of a service, and with one plain line,
 * `N passed, N failed, N skipped`. With WAYBILL_TEST_REQUIRE=all a skipped test fails the run.
 */
export default class ClosingReporter implements Reporter {
  #filtered = false

  onInit(vitest: Vitest): void {
    // A name filter skips what it leaves out: nobody asked for those.
    this.#filtered = vitest.config.testNamePattern !== undefined
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()])
    const count = (state: string): number => tests.filter((test) => test.result().state === state).length
    // A file that cannot be loaded, or a failing hook, has no failed test to show for it.
    const otherFailures = modules.filter(
      (module) => !module.ok() && [...module.children.allTests('failed')].length === 0,
    )
    const failed = count('failed') + otherFailures.length + unhandledErrors.length
    const skipped = count('skipped') + count('pending')
    for (const line of missingTable(tests)) print(line)
    if (skipped > 0 && process.env['WAYBILL_TEST_REQUIRE'] === 'all' && !this.#filtered) {
      print(
        `WAYBILL_TEST_REQUIRE=all: ${skipped} skipped ${skipped === 1 ? 'test fails' : 'tests fail'} this run`,
      )
      process.exitCode = 1
    }
    print(`\n${count('passed')} passed, ${failed} failed, ${skipped} skipped`)
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** One line for each service: its name, why it is missing, which files wanted it. */
export function missingTable(tests: readonly TestCase[]): string[] {
  const rows = new Map<string, { why: string; files: Set<string>; count: number }>()
  for (const test of tests) {
    if (test.result().state !== 'skipped') continue
    const missing = missingOf(test)
    // A failed hook skips its tests: that is a failure, and shown as one.
    if (missing === undefined && !test.module.ok()) continue
    const name = missing?.service ?? 'no service'
    const row = rows.get(name) ?? {
      why: missing?.why ?? 'skipped by its own test',
      files: new Set(),
      count: 0,
    }
    row.files.add(test.module.relativeModuleId)
    row.count++
    rows.set(name, row)
  }
  if (rows.size === 0) return []
  return [
    '\nSkipped:',
    ...[...rows].map(
      ([name, { why, files, count }]) =>
        `  ${name.padEnd(12)} ${count} skipped · ${why} · ${[...files].join(', ')}`,
    ),
  ]
}

function missingOf(test: TestCase) {
  let at: TestCase | TestSuite | TestModule = test
  while (at.type !== 'module') {
    const { missing } = at.meta()
    if (missing !== undefined) return missing
    at = at.parent
  }
  return undefined
}
