import { describe, expect, test } from 'vitest'
import { loadBrokerSpecs } from '../../src/brokers/registry.ts'
import { variableNames } from '../../src/configuration/environment.ts'
import { configurationSpec } from '../../src/configuration/spec.ts'
import { errorCodes } from '../../src/errors.ts'
import type { Fields, Spec } from '../../src/options.ts'
import { optionTable, page, tablesOf, updateTables } from './reference.ts'

const brokers = await loadBrokerSpecs()

function fieldsOf({ shape }: Spec): Fields {
  if (shape.kind !== 'object') throw new Error('not an object')
  return shape.fields
}

describe('docs/reference/configuration.md', () => {
  const fields = fieldsOf(configurationSpec(brokers))
  const parts = Object.keys(fields).filter((key) => fields[key]!.shape.kind !== 'value')
  const expected = new Map<string, string>([
    ['top', optionTable(configurationSpec(brokers), '', parts)],
    ...parts
      .filter((key) => key !== 'destinations')
      .map((key) => [key, optionTable(fields[key]!, key)] as const),
    ...Object.entries(brokers).map(([type, spec]) => [`destination ${type}`, optionTable(spec, '')] as const),
  ])
  updateTables('configuration.md', expected)

  test('has a table for every part of the configuration and every broker, and no other', () => {
    expect([...tablesOf('configuration.md').keys()].sort()).toEqual([...expected.keys()].sort())
  })

  test.each([...expected.keys()])('describes %s as the sources do', (name) => {
    expect(tablesOf('configuration.md').get(name)).toBe(expected.get(name))
  })

  test('every option has a text', () => {
    const empty = [...expected].flatMap(([name, text]) =>
      text.split('\n').flatMap((line) => (/\| +\|$/.test(line) ? [`${name}: ${line}`] : [])),
    )
    expect(empty).toEqual([])
  })

  test('names only variables that exist', () => {
    const known = new Set(variableNames(fields).keys())
    const named = page('configuration.md').match(/\bWAYBILL_[A-Z_]+[A-Z]\b/g) ?? []
    const others = ['WAYBILL_CONFIG', 'WAYBILL_TOKEN', 'WAYBILL_TEST']
    expect(named.length).toBeGreaterThan(3)
    expect(named.filter((name) => !known.has(name) && !others.includes(name))).toEqual([])
  })
})

describe('docs/reference/errors.md', () => {
  const sections = new Map(
    page('errors.md')
      .split(/^## /m)
      .slice(1)
      .map((section) => [/^`(\w+)`/.exec(section)?.[1] ?? section.split('\n')[0]!, section] as const),
  )

  test('has a section for every code of the registry, and no other', () => {
    expect([...sections.keys()].sort()).toEqual(Object.keys(errorCodes).sort())
  })

  test.each(Object.entries(errorCodes))(
    '%s has its meaning, a likely cause and what to do',
    (code, meaning) => {
      const plain = sections.get(code)!.replaceAll('`', '')
      expect(plain.toLowerCase()).toContain(`${meaning.toLowerCase()}.`)
      expect(plain).toMatch(/\n\*\*Likely cause:\*\* \S.{20,}/)
      expect(plain).toMatch(/\n\*\*What to do:\*\* \S.{20,}/)
    },
  )
})
