import { describe, expectTypeOf, test } from 'vitest'
import { type WaybillConfig, defineConfig } from '../../src/configuration/index.ts'
import type { Configuration } from '../../src/configuration/spec.ts'
import {
  type OptionsInput,
  type OptionsOf,
  boolean,
  either,
  instance,
  integer,
  list,
  object,
  oneOf,
  record,
  string,
  variants,
} from '../../src/options.ts'
import type { Publisher } from '../../src/publishing/publisher.ts'
import type { Route } from '../../src/publishing/routing.ts'
import type { RelayTuning, relaySpec } from '../../src/relay/options.ts'

const number = integer({ min: 0, max: 9 })

describe('types follow from the description', () => {
  test('of an object: required, with a default, optional', () => {
    const spec = object({ a: number, b: string().default('x'), c: boolean().optional() })
    expectTypeOf<OptionsOf<typeof spec>>().toEqualTypeOf<{
      readonly a: number
      readonly b: string
      readonly c?: boolean
    }>()
    expectTypeOf<OptionsInput<typeof spec>>().toEqualTypeOf<{
      readonly a: number
      readonly b?: string
      readonly c?: boolean
    }>()
  })

  test('of words, lists, records and alternatives', () => {
    expectTypeOf<OptionsOf<typeof word>>().toEqualTypeOf<'auto' | 'poll'>()
    expectTypeOf<OptionsOf<typeof names>>().toEqualTypeOf<readonly string[]>()
    expectTypeOf<OptionsOf<typeof counts>>().toEqualTypeOf<Readonly<Record<string, number>>>()
    expectTypeOf<OptionsOf<typeof both>>().toEqualTypeOf<readonly string[] | (() => void)>()
  })
  const word = oneOf('auto', 'poll')
  const names = list(string())
  const counts = record(number)
  const both = either([list(string()), instance<() => void>('a function', () => true)] as const, () => 0)

  test('of variants, told apart by their tag', () => {
    const spec = variants('type', { a: object({ x: number }), b: object({ y: string() }) })
    type Either = OptionsOf<typeof spec>
    expectTypeOf<Extract<Either, { type: 'a' }>['x']>().toEqualTypeOf<number>()
    expectTypeOf<Extract<Either, { type: 'b' }>['y']>().toEqualTypeOf<string>()
  })

  test('and the tuning of the relay is what its description says', () => {
    expectTypeOf<OptionsOf<typeof relaySpec>>().toEqualTypeOf<Readonly<RelayTuning>>()
    expectTypeOf<Configuration['relay']>().toEqualTypeOf<Readonly<RelayTuning>>()
  })
})

describe('defineConfig', () => {
  const publisher = {} as Publisher

  test('takes what the documentation shows', () => {
    const config = defineConfig({
      databaseUrl: '${DATABASE_URL}',
      destinations: {
        hook: { type: 'webhook', url: 'http://127.0.0.1:9000/', format: 'cloudevents' },
        mine: publisher,
        wrapped: { publisher, format: 'debezium' },
      },
      routes: [{ aggregateType: 'order', to: 'hook' }, { to: 'mine' }],
      relay: { batchSize: 200, wakeup: 'poll' },
      publications: { note: { source: { table: 'notes', keeps: 'history' } } },
    })
    expectTypeOf(config).toEqualTypeOf<WaybillConfig>()
    defineConfig({ routes: ({ eventType }) => (eventType === 'a' ? { to: 'hook' } : null) })
    defineConfig(async () => ({ databaseUrl: 'postgres://localhost' }))
    expectTypeOf<NonNullable<WaybillConfig['routes']>>().extract<Route>().toEqualTypeOf<Route>()
  })

  test('objects to what does not exist', () => {
    expectTypeOf(defineConfig).toBeCallableWith({})
    // @ts-expect-error -- batchsize
    defineConfig({ relay: { batchsize: 200 } })
    // @ts-expect-error -- a word that is none
    defineConfig({ relay: { wakeup: 'sometimes' } })
    // @ts-expect-error -- a destination without a type
    defineConfig({ destinations: { hook: { url: 'http://127.0.0.1/' } } })
    // @ts-expect-error -- a rule that leads nowhere
    defineConfig({ routes: [{ eventType: 'a' }] })
  })
})
