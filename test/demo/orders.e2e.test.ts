import { describe, expect, it } from 'vitest'
import { projectFolder, startNode } from '../support/processes.ts'
import { expectNothingLeft } from './fixtures/nothing-left.ts'

const startDemo = (...args: string[]) => startNode(`${projectFolder}examples/orders/demo.ts`, args)

describe('npm run example:orders -- --once', () => {
  it('delivers 4 000 events in order through two kills and an outage, and says so in its last line', async () => {
    const demo = startDemo('--once')
    const exit = await demo.exit
    expect(exit, demo.stdout + demo.stderr).toEqual({ code: 0, signal: null })
    const summary: Record<string, number> = JSON.parse(demo.lines.at(-1)!)
    expect(Object.keys(summary)).toEqual(['written', 'delivered', 'duplicates', 'out_of_order', 'lost'])
    expect(summary).toMatchObject({ written: 4000, delivered: 4000, out_of_order: 0, lost: 0 })
    expect(summary['duplicates']).toBeGreaterThanOrEqual(2)
    expect(demo.stdout).toMatch(/yes {2}the relay was killed twice: died of SIGKILL .*SIGKILL/)
    expect(demo.stdout).toMatch(/yes {2}the receiver was away: ECONNREFUSED while [\d,]+ events waited/)
    expect(demo.stdout).toContain('yes  attempts that the outage cost: 0')
    expect(demo.stdout).not.toContain('NO ')
    expect(demo.stderr).toBe('')
    await expectNothingLeft(demo)
  })

  it('exits 1 and counts the loss when the receiver confirms an event and forgets it', async () => {
    const demo = startNode(`${projectFolder}test/demo/fixtures/forgetful-receiver.ts`)
    const exit = await demo.exit
    expect(exit, demo.stdout + demo.stderr).toEqual({ code: 1, signal: null })
    expect(JSON.parse(demo.lines.at(-1)!)).toMatchObject({ written: 400, delivered: 399, lost: 1 })
    expect(demo.stdout).toMatch(/NO {3}1 events were committed and never arrived: [\da-f-]{36}/)
    await expectNothingLeft(demo)
  })
})

describe('npm run example:orders', () => {
  it('goes on after its relay was killed, and Ctrl-C ends all of it', async () => {
    const demo = startDemo()
    const [, pid] = await demo.line(/the relay runs as process (\d+)/, { timeoutMs: 60_000 })
    await demo.line(/written \d+ · delivered [1-9]/, { timeoutMs: 30_000 })
    const seen = demo.lines.length
    process.kill(Number(pid), 'SIGKILL')
    await demo.line(new RegExp(`process ${pid} died of SIGKILL`), { from: seen })
    await demo.line(/the relay runs as process \d+/, { from: seen, timeoutMs: 30_000 })
    await demo.line(/written \d+ · delivered [1-9]/, { from: demo.lines.length, timeoutMs: 30_000 })
    demo.signal('SIGINT')
    expect(await demo.exit, demo.stderr).toEqual({ code: 0, signal: null })
    expect(demo.stderr).toBe('')
    await expectNothingLeft(demo)
  })

  it('ends as cleanly when it is told to while it starts', async () => {
    const demo = startDemo('--once')
    await demo.line(/the receiver listens/, { timeoutMs: 60_000 })
    demo.signal('SIGTERM')
    expect(await demo.exit, demo.stderr).toEqual({ code: 130, signal: null })
    expect(demo.stderr).toBe('')
    await expectNothingLeft(demo)
  })

  it('refuses an option that it does not know', async () => {
    const demo = startDemo('--onec')
    expect(await demo.exit).toEqual({ code: 2, signal: null })
    expect(demo.stderr).toMatch(/^unknown option --onec\n/)
  })
})
