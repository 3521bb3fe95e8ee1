import { setTimeout as delay } from 'node:timers/promises'
import { beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../../scripts/embedded-postgres.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import type { TestProcess } from '../support/processes.ts'
import { type Block, blocksOf, readPage } from './markdown.ts'
import { type Reader, createReader } from './reader.ts'

const page = readPage('docs/getting-started.md')
let database: TestDatabase
let reader: Reader
let port: number
let billing: TestProcess
let relay: TestProcess

beforeAll(async () => {
  database = await createTestDatabase({ schema: 'waybill', migrated: false })
  port = await freePort()
  const secret = /whsec_\$\((node -p ".*")\)/.exec(page)![1]!
  const url = { DATABASE_URL: database.url }
  const key = (await (await createReader(url)).run(secret)).trim()
  // The page has the ports that a reader has; here they are shared with others.
  reader = await createReader({ ...url, HOOK_SECRET: `whsec_${key}`, WAYBILL_ADMIN_PORT: '0' })
})

function section(heading: string): Block[] {
  const [, text] = page.split(new RegExp(`^## ${heading}$`, 'm'))
  return blocksOf(text!.split(/^## /m)[0]!)
}

function linesOf(blocks: readonly Block[]): string[] {
  return blocks.filter(({ language }) => language === 'sh').flatMap(({ code }) => code.trim().split('\n'))
}

const sqlOf = (blocks: readonly Block[]) => blocks.find(({ language }) => language === 'sql')!.code

async function saveFiles(blocks: readonly Block[]): Promise<string[]> {
  const files = blocks.filter(({ file }) => file !== undefined)
  for (const { file, code } of files) await reader.save(file!, code.replaceAll('9000', String(port)))
  return files.map(({ file }) => file!)
}

const states = (list: string) =>
  list.split('\n').flatMap((line) => / (pending|published|discarded) /.exec(line)?.[1] ?? [])

async function unpublished(): Promise<number> {
  const rows = await database.rows('SELECT FROM "waybill".outbox_events WHERE processed_at IS NULL')
  return rows.length
}

/** Asks again and again; what never comes true ends with the time limit of the test. */
async function until(isTrue: () => Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await delay(50)
}

// One reader, from top to bottom: each section goes on where the one before ended.
describe('getting started', () => {
  test('makes the tables', async () => {
    // The packages are there, and the database is the test's.
    const [pack, init, install, ...more] = linesOf(section('Install'))
    const { version } = JSON.parse(readPage('package.json'))
    expect([pack, more]).toEqual(['npm ci && npm pack', []])
    expect(install).toBe(`npm install ../waybill/waybill-${version}.tgz pg standardwebhooks`)
    await reader.run(init!)
    const [variable, ...lines] = linesOf(section('Make the tables'))
    expect(variable).toMatch(/^export DATABASE_URL=/)
    expect(lines).toHaveLength(2)
    for (const line of lines) await reader.run(line)
    expect(await database.rows('SELECT version FROM "waybill".schema_version')).toEqual([{ version: 1 }])
  })

  test('writes an event with SQL, which the relay prints as shown', async () => {
    const blocks = section('Write an event with SQL')
    await database.query(sqlOf(blocks))
    const outputs: string[] = []
    for (const line of linesOf(blocks)) outputs.push(await reader.run(line))
    const [before, printed, after] = outputs
    expect([states(before!), states(after!)]).toEqual([['pending'], ['published']])
    const shown = blocks.find(({ language }) => language === 'text')!.code
    const varying = /[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:.]+Z/g
    expect(printed!.replaceAll(varying, '…')).toBe(shown.replaceAll(varying, '…'))
    expect(printed).toContain('1.10')
  })

  test('writes it with the data, or not at all', async () => {
    const blocks = section('Write it with the data')
    expect(await saveFiles(blocks)).toEqual(['orders.mjs'])
    const [first, second, list] = linesOf(blocks)
    expect(await reader.run(first!)).toBe('order o-2 is placed\n')
    expect(await reader.run(second!)).toMatch(/^order o-2 is not placed: duplicate key/)
    expect((await reader.run(list!)).match(/order o-2/g)).toHaveLength(1)
  })

  test('receives it once', async () => {
    const blocks = section('Receive it once')
    expect(await saveFiles(blocks)).toEqual(['billing.mjs', 'waybill.config.yaml'])
    const [, receiver, run, next] = linesOf(blocks)
    billing = reader.start(receiver!)
    await billing.line(/^billing listens$/)
    relay = reader.start(run!.replace(/^npx /, 'node_modules/.bin/'))
    await billing.line(/^invoice for o-2$/)
    await reader.run(next!)
    await billing.line(/^invoice for o-3$/)

    // As after a crash before the mark: the relay delivers it again, and the receiver knows it.
    await until(async () => (await unpublished()) === 0)
    await database.query(`UPDATE "waybill".outbox_events SET processed_at = NULL WHERE aggregate_id = 'o-3'`)
    await database.query('UPDATE "waybill".outbox_buckets SET rescan = rescan + 1')
    await billing.line(/ came again$/)
    expect(await database.rows('SELECT order_id, total FROM invoices ORDER BY 1')).toEqual([
      { order_id: 'o-2', total: '12.50' },
      { order_id: 'o-3', total: '7.00' },
    ])
  })

  test('takes something away, and it arrives later', async () => {
    const blocks = section('Take something away')
    const [place, status, deadList, discard, list] = linesOf(blocks)
    billing.signal('SIGINT')
    await billing.exit
    await reader.run(place!)
    await relay.line(/"event":"destination.down"/)
    await until(async () => /pending +1\n[^]*billing +down/.test(await reader.run(status!)))
    billing = reader.start('node billing.mjs')
    await billing.line(/^invoice for o-4$/, { timeoutMs: 40_000 })
    await relay.line(/"event":"destination.up"/)
    expect(await database.rows('SELECT DISTINCT attempts FROM "waybill".outbox_events')).toEqual([
      { attempts: 0 },
    ])

    await database.query(sqlOf(blocks))
    await relay.line(/"event":"event.dead"/)
    expect(await reader.run(deadList!)).toMatch(/order o-5 .* answered 422/)
    expect(await reader.run(discard!)).toBe('discarded 1 dead letter\n')
    expect(states(await reader.run(list!))).toEqual(['discarded'])
    relay.signal('SIGTERM')
    expect(await relay.exit).toEqual({ code: 0, signal: null })
  })
})
