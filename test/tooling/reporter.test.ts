import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { atEndOfFile } from '../support/cleanups.ts'
import { type Exit, projectFolder, startNode } from '../support/processes.ts'

const services = join(projectFolder, 'test/support/services.ts')

/** Runs a project with one test file, in a process of its own, with nothing but the reporter at work. */
async function runTests(
  body: string,
  env: Record<string, string> = {},
): Promise<Exit & { lines: readonly string[] }> {
  // Below the project's own folder, so that `vitest` resolves.
  mkdirSync(join(projectFolder, 'test/output'), { recursive: true })
  const folder = mkdtempSync(join(projectFolder, 'test/output/reporter-'))
  atEndOfFile(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(
    join(folder, 'sample.test.ts'),
    `import { describe, expect, it } from 'vitest'\nimport { describeWith } from ${JSON.stringify(services)}\n${body}`,
  )
  writeFileSync(join(folder, 'vitest.config.ts'), 'export default {}')
  const run = startNode(
    join(projectFolder, 'node_modules/vitest/vitest.mjs'),
    ['run', '--root', folder, '--reporter', join(projectFolder, 'test/support/reporter.ts')],
    // No program of the machine is found: every service is missing.
    { cwd: folder, env: { PATH: '', WAYBILL_TEST_SERVICE_PLACES: '', ...env } },
  )
  return { ...(await run.exit), lines: run.lines }
}

const passing = `it('passes', () => expect(1).toBe(1))\n`

describe('a run closes with one plain line', () => {
  it('when all is well', async () => {
    const { code, lines } = await runTests(passing)
    expect(lines.at(-1)).toBe('1 passed, 0 failed, 0 skipped')
    expect(code).toBe(0)
  })

  it('that counts failed tests and files that cannot be loaded', async () => {
    const failing = await runTests(`${passing}it('fails', () => expect(1).toBe(2))`)
    expect(failing.lines.at(-1)).toBe('1 passed, 1 failed, 0 skipped')
    expect(failing.code).toBe(1)
    const broken = await runTests(`throw new Error('no')`)
    expect(broken.lines.at(-1)).toBe('0 passed, 1 failed, 0 skipped')
    expect(broken.code).toBe(1)
  })
})

describe('a test whose service is missing', () => {
  const body = `${passing}describeWith('rabbitmq', 'broker', () => { it('is used', () => expect(1).toBe(2)) })`

  it('is skipped by name', async () => {
    const { code, lines } = await runTests(body)
    expect(lines.at(-1)).toBe('1 passed, 0 failed, 1 skipped')
    expect(lines.join('\n')).toMatch(
      /Skipped:\n +rabbitmq +1 skipped · rabbitmq-server is not installed .* · sample\.test\.ts/,
    )
    expect(code).toBe(0)
  })

  it('fails when everything is required', async () => {
    const { code, lines } = await runTests(body, { WAYBILL_TEST_REQUIRE: 'all' })
    expect(lines.at(-1)).toBe('1 passed, 1 failed, 0 skipped')
    expect(code).toBe(1)
  })

  it('fails the run when everything is required and it skips itself', async () => {
    const { code, lines } = await runTests(`${passing}it('leaves', (context) => context.skip())`, {
      WAYBILL_TEST_REQUIRE: 'all',
    })
    expect(lines.at(-1)).toBe('1 passed, 0 failed, 1 skipped')
    expect(code).toBe(1)
  })
})
