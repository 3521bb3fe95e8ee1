import { beforeAll, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { projectFolder } from '../support/processes.ts'
import { blocksOf, readPage } from './markdown.ts'
import { type Reader, createReader } from './reader.ts'

const blocks = blocksOf(readPage('README.md'))
const [example, consumer] = blocks.filter(({ language }) => language === 'ts').map(({ code }) => code) as [
  string,
  string,
]
let database: TestDatabase
let reader: Reader

beforeAll(async () => {
  database = await createTestDatabase({ schema: 'waybill', migrated: false })
  reader = await createReader({ DATABASE_URL: database.url, WAYBILL_ADMIN_PORT: '0' })
  await reader.save('package.json', '{"type": "module"}')
})

const compiler = `${projectFolder}node_modules/.bin/tsc --noEmit --strict --skipLibCheck --exactOptionalPropertyTypes --target es2023 --module nodenext --types node`

describe('the README', () => {
  test('has commands that work', async () => {
    const lines = blocks
      .filter(({ language }) => language === 'sh')
      .flatMap(({ code }) => code.trim().split('\n'))
    const commands = lines.map((line) => line.replace(/ +#.*/, ''))
    const [, , pack, install, init, migrate, relay] = commands
    expect(commands.slice(0, 2)).toEqual(['npm ci && npm run demo', 'npm ci && npm test'])
    // `npm run check:package` packs, installs and uses it.
    const { version, scripts } = JSON.parse(readPage('package.json'))
    expect([pack, scripts.prepack]).toEqual(['npm ci && npm pack', scripts.build])
    expect(install).toBe(`npm install ../waybill/waybill-${version}.tgz pg zod`)
    await reader.run(init!)
    await reader.run(migrate!)
    const running = reader.start(relay!.replace(/^npx /, 'node_modules/.bin/'))
    await running.line(/"event":"relay.started"/)
    await database.query(blocks.find(({ language }) => language === 'sql')!.code)
    await running.line(/"body":\{"id": "o-1", "total": 12.50\}\}$/)
    running.signal('SIGTERM')
    expect(await running.exit).toEqual({ code: 0, signal: null })
  })

  test('has examples that compile; the first writes both or nothing, and does not compile with a mistake', async () => {
    await reader.save('example.ts', example)
    await reader.save('wrong.ts', example.replace('total: z.number()', 'total: z.string()'))
    await reader.save('consumer.ts', consumer)
    // The types of the package as they would be published.
    const said = await reader.run(`${compiler} example.ts consumer.ts wrong.ts || true`)
    const errors = said.split('\n').filter((line) => line.includes('error TS'))
    expect(errors).toEqual([expect.stringMatching(/^wrong\.ts.*No overload matches/)])

    await database.query('CREATE TABLE orders (id text PRIMARY KEY, total numeric NOT NULL)')
    await reader.save(
      'use.ts',
      `import { placeOrder } from './example.ts'
       await placeOrder({ id: 'o-2', total: 5 })
       console.log(await placeOrder({ id: 'o-2', total: 5 }).catch((error) => error.constraint))
       process.exit()`,
    )
    const tsx = `node --import ${import.meta.resolve('tsx')}`
    expect(await reader.run(`${tsx} use.ts`)).toBe('orders_pkey\n')
    expect(await database.rows('SELECT id FROM orders')).toEqual([{ id: 'o-2' }])
    expect(
      await database.rows(
        `SELECT event_type, payload::text FROM "waybill".outbox_events WHERE aggregate_id = 'o-2'`,
      ),
    ).toEqual([{ event_type: 'order.created', payload: '{"id": "o-2", "total": 5}' }])
  })
})
