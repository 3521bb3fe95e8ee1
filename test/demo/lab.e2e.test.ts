import { describe, expect, it } from 'vitest'
import { projectFolder, startNode } from '../support/processes.ts'
import { expectNothingLeft } from './fixtures/nothing-left.ts'

const startLab = (...args: string[]) => startNode(`${projectFolder}examples/notes/demo.ts`, args)

describe('npm run demo -- --once', () => {
  it('injects every fault, which trace and audit name, and loses nothing', { timeout: 180_000 }, async () => {
    const demo = startLab('--once')
    expect(await demo.exit, demo.stdout + demo.stderr).toEqual({ code: 0, signal: null })
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
})

describe('npm run demo', () => {
  it('takes notes, faults and their repair over HTTP, until Ctrl-C', { timeout: 120_000 }, async () => {
    const demo = startLab()
    const [, lab] = await demo.line(/the lab: .* (http:\S+)$/, { timeoutMs: 60_000 })
    const call = async (path: string, method = 'GET', body?: unknown) => {
      const sent = body === undefined ? {} : { body: JSON.stringify(body) }
      const headers = { 'content-type': 'application/json' }
      const response = await fetch(`${lab}${path}`, { method, headers, ...sent })
      // oxlint-disable-next-line typescript/no-explicit-any
      return { status: response.status, body: (await response.json()) as any }
    }
    const says = async (id: string) =>
      (await call('/state')).body.notes.find((note: { id: string }) => note.id === id)?.says
    expect(await call('/notes/n-7', 'PUT', { body: 'hello' })).toMatchObject({
      status: 202,
      body: { status: 'accepted', intentKey: 'n-7:1' },
    })
    await expect
      .poll(() => call('/public/notes/n-7'), { timeout: 10_000 })
      .toMatchObject({
        status: 200,
        body: { id: 'n-7', revision: 1, body: 'hello' },
      })
    expect(await call('/faults/consumer-rejects', 'POST')).toMatchObject({ status: 200 })
    await expect
      .poll(() => says('rejected'), { timeout: 20_000 })
      .toBe('intent-relayed, projection-old, consumer-rejected')
    expect(await call('/faults/consumer-rejects', 'POST')).toMatchObject({ status: 409 })
    expect(await call('/faults/nope', 'POST')).toMatchObject({
      status: 404,
      body: { error: expect.stringContaining('old-write-path') },
    })
    expect(await call('/faults/consumer-rejects', 'DELETE')).toMatchObject({ status: 200 })
    await expect.poll(() => says('rejected'), { timeout: 20_000 }).toBe('visible')
    demo.signal('SIGINT')
    expect(await demo.exit, demo.stderr).toEqual({ code: 0, signal: null })
    expect(demo.stderr).toBe('')
    await expectNothingLeft(demo)
  })

  it('ends as cleanly when it is told to while it starts', async () => {
    const demo = startLab('--once')
    await demo.line(/PostgreSQL \d+ runs on port/, { timeoutMs: 60_000 })
    demo.signal('SIGTERM')
    expect(await demo.exit, demo.stderr).toEqual({ code: 130, signal: null })
    expect(demo.stderr).toBe('')
  })
})
