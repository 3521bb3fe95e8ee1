import type { Client, Pool, PoolClient } from 'pg'
import * as v from 'valibot'
import { describe, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { pg } from '../../src/clients/pg.ts'
import { type Outbox, type OutboxEvent, type WrittenEvent, createOutbox } from '../../src/index.ts'

declare const tx: PoolClient
declare const client: Client
declare const pool: Pool

const typed = createOutbox({
  client: pg(),
  events: {
    'order.created': z.object({ order_id: z.string(), total: z.number() }),
    'order.paid': v.object({ paid_at: v.string() }),
    'user.renamed': z.object({ name: z.string().default('nobody'), at: z.coerce.date<Date>() }),
  },
})
const aggregate = ['order', 'o-1'] as const

describe('with a catalogue', () => {
  test('a payload that its schema takes is accepted', () => {
    void typed.publish(tx, { type: 'order.created', aggregate, payload: { order_id: 'o-1', total: 1 } })
    void typed.publish(client, { type: 'order.paid', aggregate, payload: { paid_at: 'now' } })
  })

  test('a payload is typed by what its schema takes, not by what it returns', () => {
    void typed.publish(tx, { type: 'user.renamed', aggregate, payload: { at: new Date() } })
  })

  test('an unknown type is refused', () => {
    const payload = { order_id: 'o-1', total: 1 }
    const text: string = 'order.created'
    // @ts-expect-error -- not in the catalogue
    void typed.publish(tx, { type: 'order.creatd', aggregate, payload })
    // @ts-expect-error -- any text is not a known type
    void typed.publish(tx, { type: text, aggregate, payload })
  })

  test('a wrong payload is refused', () => {
    // @ts-expect-error -- total is no text
    void typed.publish(tx, { type: 'order.created', aggregate, payload: { order_id: 'o-1', total: '1' } })
    // @ts-expect-error -- total is missing
    void typed.publish(tx, { type: 'order.created', aggregate, payload: { order_id: 'o-1' } })
    // @ts-expect-error -- the payload of another type
    void typed.publish(tx, { type: 'order.paid', aggregate, payload: { order_id: 'o-1', total: 1 } })
    // @ts-expect-error -- no payload
    void typed.publish(tx, { type: 'order.paid', aggregate })
  })

  test('a batch may mix types, each with its own payload', () => {
    void typed.publish(tx, [
      { type: 'order.created', aggregate, payload: { order_id: 'o-1', total: 1 } },
      { type: 'order.paid', aggregate, payload: { paid_at: 'now' } },
    ])
    // @ts-expect-error -- a wrong payload in a batch
    void typed.publish(tx, [{ type: 'order.paid', aggregate, payload: { paid_at: 1 } }])
  })
})

describe('without a catalogue', () => {
  const open = createOutbox({ client: pg() })

  test('any type and any payload is accepted', () => {
    void open.publish(tx, { type: 'anything', aggregate, payload: { nested: [1, 'a', null] } })
    const type: string = 'anything'
    void open.publish(tx, { type, aggregate, payload: null })
    expectTypeOf(open).toEqualTypeOf<Outbox<Parameters<typeof open.publish>[0]>>()
    expectTypeOf<OutboxEvent['type']>().toEqualTypeOf<string>()
    expectTypeOf<OutboxEvent['payload']>().toEqualTypeOf<unknown>()
  })

  test('a payload has to be there', () => {
    // @ts-expect-error -- no payload
    void open.publish(tx, { type: 'anything', aggregate })
  })

  test('a field that no event has is refused', () => {
    // @ts-expect-error -- revision, misspelt
    void open.publish(tx, { type: 'anything', aggregate, payload: 1, revison: 1 })
  })

  test('an aggregate is a pair of a type and an id', () => {
    void open.publish(tx, { type: 'anything', aggregate: ['order', 42], payload: 1 })
    void open.publish(tx, { type: 'anything', aggregate: ['order', 42n], payload: 1 })
    // @ts-expect-error -- no id
    void open.publish(tx, { type: 'anything', aggregate: ['order'], payload: 1 })
    // @ts-expect-error -- an id that is no text and no number
    void open.publish(tx, { type: 'anything', aggregate: ['order', null], payload: 1 })
  })

  test('a revision is a bigint or a number', () => {
    void open.publish(tx, { type: 'anything', aggregate, payload: 1, revision: 7n, scope: 'list' })
    void open.publish(tx, { type: 'anything', aggregate, payload: 1, revision: 7 })
    // @ts-expect-error -- a text
    void open.publish(tx, { type: 'anything', aggregate, payload: 1, revision: '7' })
  })

  test('optional fields may be undefined', () => {
    const absent = undefined as string | undefined
    void open.publish(tx, {
      type: 'anything',
      aggregate,
      payload: 1,
      operationId: absent,
      scope: absent,
      id: absent,
      headers: { tenant: absent },
    })
  })
})

describe('the answer', () => {
  test('is one for one event and a list for many', () => {
    const event = { type: 'order.paid' as const, aggregate, payload: { paid_at: 'now' } }
    expectTypeOf(typed.publish(tx, event)).resolves.toEqualTypeOf<WrittenEvent>()
    expectTypeOf(typed.publish(tx, [event])).resolves.toEqualTypeOf<readonly WrittenEvent[]>()
    expectTypeOf<WrittenEvent>().toEqualTypeOf<{ readonly id: string; readonly written: boolean }>()
  })
})

describe('the handle', () => {
  const event = { type: 'order.paid' as const, aggregate, payload: { paid_at: 'now' } }

  test('is a client or a pool client, not a pool', () => {
    void typed.publish(client, event)
    void typed.publish(tx, event)
    // @ts-expect-error -- each call of a pool may take another connection
    void typed.publish(pool, event)
  })

  test('is of the kind that the adapter takes', () => {
    const other = createOutbox({
      client: {
        name: 'mine',
        query: (handle: { run(sql: string): Promise<never[]> }, sql) => handle.run(sql),
      },
    })
    // @ts-expect-error -- a client of pg has no run()
    void other.publish(client, event)
  })
})

describe('the options', () => {
  test('need a client', () => {
    // @ts-expect-error -- no client
    createOutbox({})
    // @ts-expect-error -- a payload's schema that is none
    createOutbox({ client: pg(), events: { 'order.created': { total: 'number' } } })
    // @ts-expect-error -- unknown option
    createOutbox({ client: pg(), serialize: true })
  })
})
