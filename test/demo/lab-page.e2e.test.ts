import { beforeAll, expect, test } from 'vitest'
import { type PageOptions, type TestPage, noFlaws, startBrowser } from '../support/browser.ts'
import { type TestProcess, projectFolder, startNode } from '../support/processes.ts'
import { describeWith } from '../support/services.ts'
import { expectNothingLeft } from './fixtures/nothing-left.ts'

let demo: TestProcess
let lab: string
let openPage: (options?: PageOptions) => Promise<TestPage>

describeWith('chromium', 'the page of the lab', () => {
  beforeAll(async () => {
    demo = startNode(`${projectFolder}examples/notes/demo.ts`)
    openPage = await startBrowser()
    lab = (await demo.line(/the lab: .* (http:\S+)$/, { timeoutMs: 60_000 }))[1]!
  })

  const note = (page: TestPage, id: string) =>
    page.getByRole('row').filter({ has: page.getByRole('cell', { name: id, exact: true }) })

  test('says accepted, then visible, and is ready for the next text', async () => {
    const page = await openPage()
    await page.goto(lab)
    await page.getByLabel('id').fill('n-8')
    await page.getByLabel('text').fill('hello')
    await page.getByRole('button', { name: 'Save' }).click()
    const answer = page.locator('#answer')
    await answer.getByText('accepted: n-8:1, not yet visible').waitFor()
    await answer.getByText('visible: n-8:1', { exact: true }).waitFor()
    expect(await page.getByLabel('text').inputValue()).toBe('')
    await note(page, 'n-8').getByText('projection-current, visible').waitFor()
    // What was saved last stands first.
    expect(await page.locator('tbody tr').first().innerText()).toContain('n-8')
    expect(page.complaints).toEqual([])
  })

  test('says why it does not save', async () => {
    const page = await openPage()
    await page.goto(lab)
    await page.getByLabel('text').fill('hello')
    for (const id of ['..', '.', '   ']) {
      await page.getByLabel('id').fill(id)
      await page.getByRole('button', { name: 'Save' }).click()
      const isWrong = 'document.querySelector("input[name=id]").validity.patternMismatch'
      expect(await page.evaluate(isWrong), JSON.stringify(id)).toBe(true)
    }
    await page.getByLabel('id').fill('n-9')
    await page.route('**/notes/n-9', (route) => route.abort())
    await page.getByRole('button', { name: 'Save' }).click()
    await page.locator('#answer').getByText('not saved: the lab does not answer').waitFor()
  })

  test('says of a fault what trace should say, and what it says, with the trace beside it', async () => {
    const page = await openPage()
    await page.goto(lab)
    const card = page.getByRole('listitem').filter({ has: page.locator('#consumer-rejects') })
    const said = 'intent-relayed, projection-old, consumer-rejected'
    await card.getByText(`trace should say: ${said}`).waitFor()
    await page.locator('#consumer-rejects').click()
    await card.getByText(`✗ ${said}`).waitFor()
    await note(page, 'rejected').getByText(said).waitFor()
    await card.getByText('waybill replay note rejected').waitFor()
    expect(await page.flaws()).toEqual(noFlaws)
    await page.picture('lab-1280')
    const [trace] = await Promise.all([
      page.waitForEvent('popup'),
      card.getByRole('link', { name: 'trace' }).click(),
    ])
    await trace.getByText('The event was handed over, the projection is old.').waitFor()
    expect(await trace.getByRole('region', { name: 'Conclusion' }).innerText()).toContain(
      'waybill replay note rejected',
    )
    await trace.screenshot({ path: 'test/output/pages/lab-trace-1280.png', fullPage: true })

    await card.getByRole('button', { name: 'Mend it' }).click()
    await card.getByText('✓ projection-current, visible').waitFor()
    await card.getByRole('button', { name: 'Do it again' }).waitFor()
    await trace.reload()
    await trace.getByText('projection-current').waitFor()
    expect(page.complaints).toEqual([])
  })

  test('shows a dead relay, whose pages live on, and refuses what needs it', async () => {
    const page = await openPage()
    await page.goto(lab)
    const card = (name: string) => page.getByRole('listitem').filter({ has: page.locator(`#${name}`) })
    await page.locator('#relay-killed-before-mark').click()
    await note(page, 'killed-late').getByText('intent-pending, intent-overdue, ').waitFor()
    await page.locator('#delivered-twice').click()
    await card('delivered-twice').getByText('needs the relay, which "Kill the relay between').waitFor()
    const [trace] = await Promise.all([
      page.waitForEvent('popup'),
      card('relay-killed-before-mark').getByRole('link', { name: 'trace' }).click(),
    ])
    await trace.getByRole('region', { name: 'Conclusion' }).getByText('intent-pending').waitFor()
    for (const name of ['Publications', 'What each fault is', 'A note does not show: what now']) {
      const link = page.getByRole('banner').getByRole('link', { name })
      expect((await fetch(new URL((await link.getAttribute('href'))!, lab))).status).toBe(200)
    }
    expect(await page.locator('#command-line').innerText()).toMatch(/^waybill\(\) \{ npm run -s waybill/)
    await page.locator('#relay-killed-before-mark').click()
    await note(page, 'killed-late').getByText('projection-current, visible').waitFor()
    await note(page, 'killed-late').getByText('arrived twice, applied once').waitFor()
  })

  test('fits on a phone', async () => {
    for (const dark of [false, true]) {
      const page = await openPage({ width: 400, dark })
      await page.goto(lab)
      await page.locator('#note-n-42').waitFor()
      await page.picture(`lab-400${dark ? '-dark' : ''}`)
      expect(await page.flaws()).toEqual(noFlaws)
    }
  })

  test('leaves nothing behind', async () => {
    demo.signal('SIGINT')
    expect(await demo.exit, demo.stderr).toEqual({ code: 0, signal: null })
    await expectNothingLeft(demo)
  })
})
