import { describe, expect, test } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { brokerTypes } from '../../src/brokers/registry.ts'
import * as waybill from '../../src/index.ts'
import { packagesOf } from '../support/imports.ts'

describe('importing', () => {
  test('waybill loads uuid and nothing else', () => {
    const { loaded, later, files } = packagesOf('index.ts')
    expect(files).toBeGreaterThan(10)
    expect(loaded).toEqual(['uuid'])
    expect(later).toEqual(['@opentelemetry/api'])
  })

  test('waybill/clients/pg loads no package at all', () => {
    expect(packagesOf('clients/pg.ts')).toMatchObject({ loaded: [], later: [] })
  })

  test('waybill/relay loads neither the log nor the metrics nor the HTTP server', () => {
    expect(packagesOf('relay/index.ts').loaded.toSorted()).toEqual(['fastest-levenshtein', 'pg'])
    expect(packagesOf('admin/server.ts').loaded).toEqual(
      expect.arrayContaining(['hono', 'pino', 'prom-client']),
    )
  })

  test('waybill/migrations loads pg, so that the check above can fail', () => {
    expect(packagesOf('schema/index.ts').loaded).toEqual(['pg'])
  })
})

/** What a broker's module loads when a publisher is made. */
const librariesOf = (type: string) => packagesOf(`brokers/${type}.ts`).later
const libraries = [...new Set(brokerTypes.flatMap(librariesOf))]

/** The module behind each name that the package exports. */
const subpaths = Object.entries(packageJson.exports).flatMap(([name, target]) =>
  typeof target === 'string'
    ? []
    : [[name, target.default.replace('./dist/', '').replace('.js', '.ts')] as const],
)

describe('the libraries of the brokers', () => {
  test('are known to these checks', () => {
    expect(libraries).toEqual(expect.arrayContaining(['rabbitmq-client', '@aws-sdk/client-sqs']))
    expect(subpaths.length).toBeGreaterThan(10)
  })

  test.each(subpaths)('are not loaded by importing waybill, %s', (_name, file) => {
    expect(packagesOf(file).loaded.filter((name) => libraries.includes(name))).toEqual([])
  })

  test.each([...brokerTypes])('have a subpath of their own: %s', (type) => {
    expect(subpaths.map(([name]) => name)).toContain(`./brokers/${type}`)
  })

  test('are optional peers, and every optional peer is one of them', () => {
    const { '@opentelemetry/api': _, ...peers } = packageJson.peerDependencies
    expect(Object.keys(peers).sort()).toEqual(libraries.toSorted())
    const optional = Object.entries(packageJson.peerDependenciesMeta).filter(([, { optional }]) => optional)
    expect(optional.map(([name]) => name)).toEqual(expect.arrayContaining(libraries))
    expect(Object.keys(packageJson.devDependencies)).toEqual(expect.arrayContaining(libraries))
  })
})

test('waybill exports createOutbox, the error and its codes, and nothing else', () => {
  expect(Object.keys(waybill).toSorted()).toEqual(['WaybillError', 'createOutbox', 'errorCodes', 'hasCode'])
})
