import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { awsMeanings } from '../../src/brokers/aws/answers.ts'
import { rabbitmqSourceOptions } from '../../src/brokers/rabbitmq-source.ts'
import { sqsSourceOptions } from '../../src/brokers/sqs-source.ts'
import { configurationSpec } from '../../src/configuration/spec.ts'
import { resolveOptions } from '../../src/options.ts'
import { brokerTypes, loadBrokerSpecs } from '../../src/brokers/registry.ts'
import { codeOf, compile, configurationsOf, pagesIn } from '../support/compile.ts'
import { optionTable, page, tablesOf, updateTables } from '../configuration/reference.ts'

const specs = await loadBrokerSpecs()

describe('the page of each broker', () => {
  it.each([...brokerTypes])('%s describes its options as the sources do', (type) => {
    const name = `../brokers/${type}.md`
    const expected = optionTable(specs[type]!, '')
    updateTables(name, new Map([['options', expected]]))
    expect(tablesOf(name).get('options')).toBe(expected)
  })

  it.each([
    ['rabbitmq', rabbitmqSourceOptions],
    ['sqs', sqsSourceOptions],
  ])('%s describes the options of its source as the sources do', (type, spec) => {
    const name = `../brokers/${type}.md`
    const expected = optionTable(spec, '')
    updateTables(name, new Map([['source options', expected]]))
    expect(tablesOf(name).get('source options')).toBe(expected)
  })

  it.each([...brokerTypes])('%s says what it guarantees', (type) => {
    expect(page(`../brokers/${type}.md`)).toMatch(/\n## Guarantees\n[^]*\*\*Delivery\*\*[^]*\*\*Order\*\*/)
  })

  it('sqs lists each code that AWS is known to answer with', () => {
    for (const code of Object.keys(awsMeanings)) expect(page('../brokers/sqs.md')).toContain(`\`${code}\``)
  })

  it('webhook lists the meaning of each status', async () => {
    const source = readFileSync(new URL('../../src/brokers/http/answers.ts', import.meta.url), 'utf8')
    const sets = [...source.matchAll(/new Set\(\[(.*?)\]\)/g)].map(([, statuses]) => statuses!)
    expect(sets).toHaveLength(2)
    for (const statuses of sets) expect(page('../brokers/webhook.md')).toContain(statuses)
  })
})

/** Modules of the reader's own, which an example imports. */
function withStandIns(code: string): string {
  return code
    .replace(
      "import { createMyPublisher } from './my-publisher.ts'",
      "declare function createMyPublisher(client: unknown): import('waybill/relay').Publisher",
    )
    .replace(
      "import { startMyBroker } from './my-broker.ts'",
      `declare function startMyBroker(): Promise<{
         client(): unknown
         received: { id: string; headers: Record<string, string>; body: string }[]
         start(): Promise<void>; stop(): Promise<void> }>`,
    )
}

describe('the examples of these pages', () => {
  const pages = [...pagesIn('brokers'), 'guides/routing.md', 'reference/message.md']

  it('compile, and one with a mistake does not', () => {
    const examples = pages.flatMap((name) => codeOf(name, 'ts')).map(withStandIns)
    expect(examples.length).toBeGreaterThan(8)
    const wrong = "import { webhookPublisher } from 'waybill/brokers/webhook'\nwebhookPublisher({ url: 5 })"
    expect(compile([...examples, wrong])).toEqual([
      expect.stringMatching(new RegExp(`^example-${examples.length}\\.ts: Type 'number'`)),
    ])
  }, 60_000)

  it('are configurations that the program takes', () => {
    const all = configurationSpec(specs)
    const examples = pages.flatMap(configurationsOf)
    expect(examples.length).toBeGreaterThan(3)
    for (const example of examples) {
      expect(Object.keys(resolveOptions(all, example).destinations).length).toBeGreaterThan(0)
    }
  })
})
