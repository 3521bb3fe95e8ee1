import { existsSync, statSync } from 'node:fs'
import { beforeAll, describe, expect, test } from 'vitest'
import { type TestProcess, projectFolder, startNode, startProcess } from '../support/processes.ts'
import { expectNothingLeft } from './fixtures/nothing-left.ts'

let demo: TestProcess
let lab: string
let pages: string
/** The line that the banner gives for another terminal. */
let commandLine: string

interface Whereabouts {
  id: string
  revision: number
  says: string
  tone: string
  arrived: number
  applied: number
  traceUrl: string
}

async function call(path: string, method = 'GET', body?: string) {
  const response = await fetch(`${lab}${path}`, { method, ...(body === undefined ? {} : { body }) })
  // oxlint-disable-next-line typescript/no-explicit-any
  return { status: response.status, body: (await response.json()) as any }
}
const save = (id: string, text: string) => call(`/notes/${id}`, 'PUT', JSON.stringify({ body: text }))
const inject = (name: string) => call(`/faults/${name}`, 'POST')
const mend = (name: string) => call(`/faults/${name}`, 'DELETE')
const noteOf = async (id: string): Promise<Whereabouts> =>
  (await call('/state')).body.notes.find((note: Whereabouts) => note.id === id)
const faultOf = async (name: string): Promise<{ expected: string; hit: Whereabouts }> =>
  (await call('/state')).body.faults.find((fault: { name: string }) => fault.name === name)
const hitOf = async (name: string) => (await faultOf(name)).hit

const patience = { timeout: 20_000 }
const visible = 'projection-current, visible'
const expectNote = (id: string) => expect.poll(() => noteOf(id), patience)

/** In another terminal: pastes the line of the banner, then a command as a trace shows it. */
async function paste(command: string): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const shell = startProcess('bash', ['-c', `${commandLine}\n${command}`])
  const { code } = await shell.exit
  return { code, stdout: shell.stdout, stderr: shell.stderr }
}

beforeAll(async () => {
  demo = startNode(`${projectFolder}examples/notes/demo.ts`)
  lab = (await demo.line(/the lab: .* (http:\S+)$/, { timeoutMs: 60_000 }))[1]!
  pages = (await demo.line(/where is a revision .*(http:\S+)\/trace/))[1]!
  commandLine = (await demo.line(/^ {2}(waybill\(\) .*)$/))[1]!
})

describe('npm run demo', () => {
  test('takes notes over HTTP, and shows readers what became of them', async () => {
    expect(await save('n-7', 'hello')).toMatchObject({
      status: 202,
      body: { status: 'accepted', intentKey: 'n-7:1' },
    })
    await expectNote('n-7').toMatchObject({ revision: 1, says: visible, tone: 'good' })
    expect((await call('/public/notes/n-7')).body).toEqual({ id: 'n-7', revision: 1, body: 'hello' })
  })

  test.each([
    ['what is no JSON', 'n-8', '{"body": '],
    ['an empty body', 'n-8', ''],
    ['null', 'n-8', 'null'],
    ['a number', 'n-8', '{"body": 8}'],
    ['a blank text', 'n-8', '{"body": "  "}'],
    ['the character NUL', 'n-8', String.raw`{"body": "a\u0000b"}`],
    ['half a character', 'n-8', String.raw`{"body": "\ud800"}`],
    ['a blank id', '%20%20', '{"body": "text"}'],
    ['an id that is too long', 'n'.repeat(61), '{"body": "text"}'],
  ])('refuses %s with 400 and one sentence', async (_, id, body) => {
    const answer = await call(`/notes/${id}`, 'PUT', body)
    expect(answer).toEqual({ status: 400, body: { error: expect.stringMatching(/^expected \{"body"/) } })
    expect(await noteOf('n-8')).toBeUndefined()
  })

  test('shows the beginning of a long text', async () => {
    await save('long', 'x'.repeat(5_000))
    await expectNote('long').toMatchObject({ says: visible, body: `${'x'.repeat(160)}…` })
    expect(await noteOf('long')).toMatchObject({ publicBody: `${'x'.repeat(160)}…` })
  })

  test('tells of a relay that died before the mark what trace says, by pages and commands that live on', async () => {
    expect(await inject('relay-killed-before-mark')).toMatchObject({
      status: 200,
      body: { id: 'killed-late' },
    })
    const { expected } = await faultOf('relay-killed-before-mark')
    expect(expected).toMatch(/^intent-pending, intent-overdue, /)
    await expectNote('killed-late').toMatchObject({
      ...{ publicRevision: 1, says: expected, tone: 'bad' },
      ...{ arrived: 1, applied: 1 },
    })
    const page = await fetch((await noteOf('killed-late')).traceUrl)
    expect(page.status).toBe(200)
    expect(await page.text()).toContain('killed-late')
    expect((await fetch(`${pages}/publications`)).status).toBe(200)

    const trace = await paste('waybill --json trace note killed-late')
    expect(trace, trace.stderr).toMatchObject({ code: 0 })
    expect(JSON.parse(trace.stdout)).toMatchObject({ verdict: { symptom: 'intent-overdue', owner: 'relay' } })
    expect(await paste('waybill audit')).toMatchObject({ code: 1, stderr: '' })
  })

  test('refuses at once what would wait for the dead relay, and says what to mend first', async () => {
    for (const name of ['relay-killed-after-commit', 'delivered-twice', 'stale-cache', 'consumer-rejects']) {
      expect(await inject(name)).toEqual({
        status: 409,
        body: {
          error: expect.stringMatching(/needs the relay, which "Kill the relay between .* mend that first$/),
        },
      })
    }
    expect(await mend('relay-killed-before-mark')).toMatchObject({ status: 200 })
    // It came again, and nothing was done.
    await expectNote('killed-late').toMatchObject({ says: visible, arrived: 2, applied: 1 })
  })

  test('does a fault once when it is asked twice, and mends it once', async () => {
    const asked = await Promise.all([inject('consumer-rejects'), inject('consumer-rejects')])
    expect(asked.map(({ status }) => status).sort()).toEqual([200, 409])
    expect(await inject('consumer-rejects')).toMatchObject({ status: 409 })
    expect(await noteOf('rejected')).toMatchObject({ revision: 1 })
    // At once, while the event may be on its way still.
    const mended = await Promise.all([mend('consumer-rejects'), mend('consumer-rejects')])
    expect(mended).toEqual([
      { status: 200, body: { id: 'rejected', revision: 1 } },
      { status: 200, body: { id: 'rejected', revision: 1 } },
    ])
    expect(await noteOf('rejected')).toMatchObject({ says: visible })
    expect(await mend('consumer-rejects')).toEqual(mended[0])
  })

  test('mends also what was saved to the note meanwhile', async () => {
    await inject('consumer-rejects')
    await save('rejected', 'my own text')
    await expectNote('rejected').toMatchObject({
      ...{ revision: 3, says: 'intent-relayed, projection-old, consumer-rejected' },
    })
    expect(await mend('consumer-rejects')).toMatchObject({ status: 200 })
    expect(await noteOf('rejected')).toMatchObject({ revision: 3, says: visible })
  })

  test('mends what somebody has mended by the command of the trace, or by a newer revision', async () => {
    await inject('old-write-path')
    await expectNote('forgotten').toMatchObject({ says: 'note-only, intent-missing, no-intent' })
    const { command } = (await hitOf('old-write-path')) as Whereabouts & { command: string }
    expect(command).toMatch(/^waybill intent create note forgotten 1 --reason/)
    const done = await paste(command.replace(/--reason .*/, '--reason "decided by hand"'))
    expect(done, done.stderr).toMatchObject({ code: 0 })
    expect(await mend('old-write-path')).toMatchObject({ status: 200, body: { revision: 1 } })
    await expectNote('forgotten').toMatchObject({ says: visible })

    expect(await inject('old-write-path')).toMatchObject({ status: 200, body: { revision: 2 } })
    await save('forgotten', 'and somebody saved again')
    expect(await mend('old-write-path')).toMatchObject({ status: 200 })
    await expectNote('forgotten').toMatchObject({ revision: 3, says: visible })
  })

  test('shows the second delivery, and of two the one that came late', async () => {
    await inject('delivered-twice')
    await expect
      .poll(() => hitOf('delivered-twice'), patience)
      .toMatchObject({ says: visible, arrived: 2, applied: 1 })
    await inject('out-of-order')
    await expect
      .poll(() => hitOf('out-of-order'), patience)
      .toMatchObject({ revision: 1, says: visible, arrived: 1, applied: 0 })
    // Both are over: they may be done again.
    expect(await inject('out-of-order')).toMatchObject({ status: 200, body: { revision: 3 } })
  })

  test('names the faults that there are, and says where there is nothing to mend', async () => {
    expect(await inject('nope')).toMatchObject({
      ...{ status: 404, body: { error: expect.stringContaining('old-write-path') } },
    })
    expect(await mend('broker-away')).toMatchObject({ status: 404 })
  })

  test('counts what the service wrote, ends at Ctrl-C, and leaves nothing behind', async () => {
    const file = /--config '(.*)'/.exec(commandLine)![1]!
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const from = demo.lines.length
    demo.signal('SIGINT')
    expect(await demo.exit, demo.stderr).toEqual({ code: 0, signal: null })
    expect(demo.stderr).toBe('')
    const [, written, delivered] = await demo.line(/^written (\d+) · delivered (\d+) · waiting 0/, { from })
    expect(delivered).toBe(written)
    expect(existsSync(file)).toBe(false)
    await expectNothingLeft(demo)
  })
})
