import { beforeAll, expect, test } from 'vitest'
import { type AdminServer, createAdminServer, createHousekeeping } from '../../src/admin/server.ts'
import { createTelemetry } from '../../src/telemetry/events.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { answers, consumed, database, note, projected, relay, save } from '../publications/fixtures/notes.ts'
import { type PageOptions, type TestPage, noFlaws, startBrowser } from '../support/browser.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { describeWith } from '../support/services.ts'

const token = 'a-long-secret'
/** What nobody should put into an id, and somebody will. */
const hostile = `<script>hit=1</script><img src=x onerror=hit=1>"'&\u202eevil\u2066 ${'x'.repeat(120)}`

let open: string
let closed: string
let openPage: (options?: PageOptions) => Promise<TestPage>

async function serve(options: { token?: string } = {}): Promise<string> {
  const telemetry = createTelemetry()
  const server: AdminServer = createAdminServer({
    port: 0,
    ...options,
    database: { databaseUrl: database.url, schema: database.schema },
    health: () => ({ live: true, ready: true, reason: null }),
    metrics: createMetrics({ telemetry }),
    telemetry,
    publications: { note: { ...note, reads: [...note.reads, { ...note.reads[0]!, name: 'mobile API' }] } },
  })
  atEndOfFile(() => server.stop())
  return (await server.start()).url
}

/** As a relay does beside its work. */
async function audit(): Promise<void> {
  const telemetry = createTelemetry()
  const housekeeping = createHousekeeping({
    ...{ databaseUrl: database.url, schema: database.schema, telemetry, retention: false },
    ...{ relayId: '0197f6a0-2f43-7cc0-8000-5b1f0c0f7d11', publications: { note } },
  })
  const taken = new Promise((resolve) => telemetry.on('audit.taken', resolve))
  housekeeping.start()
  await taken
  await housekeeping.stop()
}

async function plantStates(): Promise<void> {
  await save('old-path', 3, { withIntent: false })
  for (const id of ['cached', 'refused', 'well', hostile]) await save(id, 7)
  await relay()
  for (const id of ['cached', 'well']) {
    await consumed(id, 7)
    await projected(id, 7)
  }
  await consumed('refused', 7, 'rejected')
  await consumed(hostile, 7, 'rejected')
  await database.query('UPDATE "waybill".processed_events SET error = $1 WHERE aggregate_id = $2', [
    `<b>${'no title '.repeat(1200)}`,
    hostile,
  ])
  answers.set('cached', {
    body: '{"revision": 6}',
    headers: { age: '300', 'cache-control': 'public, max-age=600', etag: '"6"' },
  })
  answers.set('well', { body: '{"revision": 7}' })
  answers.set(hostile, { status: 302, body: '', headers: { location: `/${'y'.repeat(3000)}` } })
  await save('waiting', 1)
}

const pathOf = (id: string) => `/trace?${new URLSearchParams({ type: 'note', id, revision: '' }).toString()}`

describeWith('chromium', 'the pages in a browser', () => {
  beforeAll(async () => {
    ;[open, closed, openPage] = [await serve(), await serve({ token }), await startBrowser()]
    await plantStates()
    await audit()
  })

  test.each([
    { width: 1280, dark: false },
    { width: 1280, dark: true },
    { width: 400, dark: false },
    { width: 400, dark: true },
  ])('are legible in a window of %o, whatever text they show', async (options) => {
    const page = await openPage(options)
    const pages = {
      start: '/',
      login: '/login?next=/trace',
      form: '/trace',
      'old-path': pathOf('old-path'),
      waiting: pathOf('waiting'),
      cached: pathOf('cached'),
      refused: pathOf('refused'),
      well: pathOf('well'),
      hostile: pathOf(hostile),
      unknown: pathOf(`nobody ${'z'.repeat(240)}`),
      publications: '/publications',
    }
    for (const [name, path] of Object.entries(pages)) {
      await page.goto((name === 'login' ? closed : open) + path)
      await page.picture(`${name}-${options.width}${options.dark ? '-dark' : ''}`)
      expect(await page.flaws(), name).toEqual(noFlaws)
      expect(await page.getByRole('main').count()).toBe(1)
      expect(await page.getByRole('heading', { level: 1 }).count()).toBe(1)
    }
    expect(await page.evaluate('typeof hit')).toBe('undefined')
    // A page that answers 404 is told in the console too.
    expect(page.complaints.filter((text) => !text.includes('status of 404'))).toEqual([])
    await page.close()
  })

  test('lead from a symptom to its trace, and from a form to another', async () => {
    const page = await openPage()
    await page.goto(`${open}/publications`)
    await page.getByRole('link', { name: 'old-path, revision 3' }).click()
    await page.getByRole('heading', { name: 'note old-path, revision 3' }).waitFor()
    const conclusion = page.getByRole('region', { name: 'Conclusion' })
    for (const name of ['note-only', 'intent-missing', 'no-intent'])
      expect(await conclusion.innerText()).toContain(name)
    expect(await conclusion.locator('pre').innerText()).toBe(
      'waybill intent create note old-path 3 --reason "…"',
    )
    await page.getByLabel('Aggregate id').fill('cached')
    await page.getByLabel('Revision').fill('007')
    await page.getByLabel('Revision').press('Enter')
    await page.getByRole('heading', { name: 'note cached, revision 7' }).waitFor()
    expect(await conclusion.innerText()).toContain('The public read shows old text.')
    const shown = await page
      .getByRole('region', { name: 'What each shows' })
      .getByRole('listitem')
      .allInnerTexts()
    expect(shown.map((text) => text.split('\n')[0])).toEqual([
      ...['source', 'projection public_notes', 'read public list', 'read mobile API'],
    ])
    expect(page.complaints).toEqual([])
    await page.close()
  })

  test('follow a publication until the reader sees it', async () => {
    await save('followed', 2)
    const page = await openPage()
    await page.goto(`${open}/trace`)
    await page.getByLabel('Aggregate id').fill('followed')
    await page.getByLabel('Follow').check()
    await page.getByRole('button', { name: 'Trace' }).click()
    const state = page.locator('.state')
    expect(await state.innerText()).toBe('intent-pending')
    await relay()
    await state.getByText('intent-relayed').waitFor()
    await consumed('followed', 2)
    await projected('followed', 2)
    answers.set('followed', { body: '{"revision": 2}' })
    await state.getByText('projection-current').waitFor()
    await page.getByText('no longer followed').waitFor()
    expect(page.complaints).toEqual([])
    await page.close()
  })

  test('ask for the token once, where there is one', async () => {
    const page = await openPage({ width: 400 })
    await page.goto(`${closed}/trace?type=note&id=well`)
    await page.getByLabel('Token').fill('a guess')
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByRole('alert').getByText('This is not the token of this relay.').waitFor()
    await page.picture('login-refused-400')
    await page.getByLabel('Token').fill(token)
    await page.getByLabel('Token').press('Enter')
    await page.getByRole('heading', { name: 'note well, revision 7' }).waitFor()
    await page.getByRole('link', { name: 'Publications' }).click()
    await page.getByRole('heading', { name: 'Publications' }).waitFor()
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.getByRole('heading', { name: 'Log in' }).waitFor()
    await page.goto(`${closed}/publications`)
    expect(new URL(page.url()).pathname).toBe('/login')
    expect(page.complaints.filter((text) => !text.includes('status of 401'))).toEqual([])
    await page.close()
  })
})
