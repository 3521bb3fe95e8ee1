import { describe, expect, it } from 'vitest'
import { projectFolder, startNode } from '../support/processes.ts'
import { expectNothingLeft } from './fixtures/nothing-left.ts'

const startLab = (...args: string[]) => startNode(`${projectFolder}examples/notes/demo.ts`, args)

describe('npm run demo -- --once', () => {
  it('injects every fault, which trace and audit name, and loses nothing', { timeout: 180_000 }, async () => {
    const demo = startLab('--once')
    expect(await demo.exit, demo.stdout + demo.stderr).toEqual({ code: 0, signal: null })
    // The last line, as a program reads it.
    const { faults, ...summary } = JSON.parse(demo.lines.at(-1)!)
    expect(Object.keys(summary)).toEqual(['written', 'delivered', 'duplicates', 'out_of_order', 'lost'])
    expect(summary).toMatchObject({ delivered: summary.written, out_of_order: 0, lost: 0 })
    expect(summary.written).toBeGreaterThanOrEqual(500)
    expect(faults.map(({ name }: { name: string }) => name)).toEqual([
      ...['relay-killed-after-commit', 'relay-killed-before-mark', 'broker-away', 'delivered-twice'],
      ...['out-of-order', 'consumer-rejects', 'stale-cache', 'old-write-path'],
    ])
    for (const { expected, found } of faults) expect(found).toBe(expected)
    expect(demo.stdout).not.toContain('NO ')
    expect(demo.stderr).toBe('')
    await expectNothingLeft(demo)
  })

  it('exits 1 and says what is not as it should be', { timeout: 180_000 }, async () => {
    const demo = startNode(`${projectFolder}test/demo/fixtures/forgetful-network.ts`)
    expect(await demo.exit, demo.stdout + demo.stderr).toEqual({ code: 1, signal: null })
    const { faults, ...summary } = JSON.parse(demo.lines.at(-1)!)
    expect(summary).toMatchObject({ lost: 15, out_of_order: 0 })
    expect(demo.stdout).toMatch(/NO {3}15 revisions were committed and never taken: note-7:1/)
    const wrong = faults.filter(({ expected, found }: Record<string, string>) => expected !== found)
    expect(wrong).toContainEqual(
      expect.objectContaining({
        name: 'consumer-rejects',
        found: expect.stringMatching(/visible; audit says null/),
      }),
    )
    await expectNothingLeft(demo)
  })

  it('ends as cleanly when it is told to while it starts', async () => {
    const demo = startLab('--once')
    await demo.line(/PostgreSQL \d+ runs on port/, { timeoutMs: 60_000 })
    demo.signal('SIGTERM')
    expect(await demo.exit, demo.stderr).toEqual({ code: 130, signal: null })
    expect(demo.stderr).toBe('')
    expect(demo.lines.at(-1)).toBe('stopped before the end: nothing is left running')
  })
})
