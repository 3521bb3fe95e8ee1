import { describe, expect, it } from 'vitest'
import { isAlive } from '../../scripts/embedded-postgres/processes.ts'
import { runCleanups } from '../support/cleanups.ts'
import { startProcess } from '../support/processes.ts'

const node = (script: string, options?: Parameters<typeof startProcess>[2]) =>
  startProcess(process.execPath, ['-e', script], options)

describe('a test process', () => {
  it('shows lines of both streams as they come, also when they arrive in pieces', async () => {
    const run = node(
      `process.stdout.write('read'); setTimeout(() => { process.stdout.write('y on 4'); console.log('2\\nrest'); console.error('oops') }, 20)`,
    )
    const [, port] = await run.line(/ready on (\d+)/)
    expect(port).toBe('42')
    await run.line(/oops/)
    expect(await run.exit).toEqual({ code: 0, signal: null })
    expect(run.stdout).toBe('ready on 42\nrest\n')
    expect(run.stderr).toBe('oops\n')
    expect(run.lines).toHaveLength(3)
  })

  it('says what it wrote when it ends, or goes on, without the line', async () => {
    await expect(node(`console.log('only this')`).line(/never/)).rejects.toThrow(/ended without[^]*only this/)
    const endless = node(`setInterval(() => undefined, 1000); console.log('waiting')`)
    await expect(endless.line(/never/, { timeoutMs: 300 })).rejects.toThrow(/ran for 300 ms/)
  })

  it('reads its input and inherits no variable but the few that every program needs', async () => {
    process.env['WAYBILL_DATABASE_URL'] = 'postgres://elsewhere'
    const run = node(`process.stdin.pipe(process.stdout); console.log(Object.keys(process.env).join())`, {
      input: 'given',
      env: { MINE: '1' },
    })
    await run.exit
    delete process.env['WAYBILL_DATABASE_URL']
    expect(run.stdout).toContain('given')
    expect(run.stdout).toContain('MINE')
    expect(run.stdout).not.toContain('WAYBILL_DATABASE_URL')
  })

  it('is told by its exit code or its signal, and does not outlive the test file', async () => {
    const run = node(`setInterval(() => undefined, 1000); console.log('up')`)
    await run.line(/up/)
    await runCleanups()
    expect(await run.exit).toEqual({ code: null, signal: 'SIGKILL' })
    expect(isAlive(run.pid)).toBe(false)
    expect((await node('process.exit(3)').exit).code).toBe(3)
  })
})
