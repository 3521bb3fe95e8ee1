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

  test('says accepted, then visible; and of a fault, with the trace beside it, what it is', async () => {
    const page = await openPage()
    await page.goto(lab)
    await page.getByLabel('id').fill('n-8')
    await page.getByLabel('text').fill('hello')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('status').getByText('accepted: n-8:1').waitFor()
    const note = (id: string) => page.getByRole('row').filter({ has: page.getByRole('cell', { name: id }) })
    await note('n-8').getByText('visible').waitFor()

    await page.locator('#consumer-rejects').click()
    await note('rejected').getByText('intent-relayed, projection-old, consumer-rejected').waitFor()
    expect(await page.flaws()).toEqual(noFlaws)
    await page.picture('lab-1280')
    const [trace] = await Promise.all([
      page.waitForEvent('popup'),
      note('rejected').getByRole('link', { name: 'trace' }).click(),
    ])
    await trace.getByText('The event was handed over, the projection is old.').waitFor()
    expect(await trace.getByRole('region', { name: 'Conclusion' }).innerText()).toContain(
      'waybill replay note rejected',
    )
    await trace.screenshot({ path: 'test/output/pages/lab-trace-1280.png', fullPage: true })

    await page.locator('#consumer-rejects').click()
    await note('rejected').getByText('visible').waitFor()
    await trace.reload()
    await trace.getByText('projection-current').waitFor()
    // It has no icon.
    expect(page.complaints.filter((text) => !text.includes('status of 404'))).toEqual([])
  })

  test('fits on a phone', async () => {
    for (const dark of [false, true]) {
      const page = await openPage({ width: 400, dark })
      await page.goto(lab)
      await page.getByRole('cell', { name: 'n-42' }).waitFor()
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
