import { describe, expect, it } from 'vitest'
import { routableEvent } from '../../src/publishing/message.ts'
import { type Route, type RouteRule, compilePattern, createRouter } from '../../src/publishing/routing.ts'
import { storedEvent } from '../support/messages.ts'

const event = (aggregateType: string, eventType: string, headers = '{}') =>
  routableEvent(storedEvent({ aggregateType, eventType, headers }))

describe('a table of routes', () => {
  const rules: RouteRule[] = [
    { aggregateType: 'order', to: 'hook' },
    { eventType: 'invoice.*', to: 'bus', topic: 'billing' },
    { aggregateType: 'a*c', eventType: '*.done', to: 'hook', url: 'https://x.test/' },
  ]
  const route = createRouter(rules, ['hook', 'bus'])

  it('takes the first rule that matches', () => {
    expect(route(event('order', 'invoice.sent'))).toEqual({ to: 'hook' })
    expect(route(event('customer', 'invoice.sent'))).toEqual({ to: 'bus', topic: 'billing' })
    expect(route(event('abc', 'x.done'))).toEqual({ to: 'hook', url: 'https://x.test/' })
  })

  it('answers null when none matches', () => {
    expect(route(event('customer', 'created'))).toBeNull()
    expect(route(event('customer', 'created'))).toBeNull()
    expect(route(event('Order', 'x'))).toBeNull()
  })

  it('does not look at the headers, which may be bad', () => {
    expect(route(event('order', 'x', '[1]'))).toEqual({ to: 'hook' })
  })

  it('stays right for more types than it remembers', () => {
    const many = createRouter([{ eventType: 't1*', to: 'hook' }, { to: 'bus' }], ['hook', 'bus'])
    for (let round = 0; round < 2; round++) {
      for (let i = 0; i < 12_000; i++) {
        expect(many(event('a', `t${i}`))?.to).toBe(String(i).startsWith('1') ? 'hook' : 'bus')
      }
    }
  })

  it('refuses an unknown destination and suggests the one that was meant', () => {
    expect(() => createRouter([{ to: 'bus' }, { to: 'hok' }], ['hook', 'bus'])).toThrow(
      expect.objectContaining({
        code: 'CONFIGURATION_INVALID',
        message: 'routes[1].to: unknown destination "hok", did you mean "hook"?',
      }),
    )
    expect(() => createRouter([{ to: 'elsewhere' }], ['hook', 'bus'])).toThrow(/expected one of hook, bus/)
  })

  it('refuses an empty topic', () => {
    expect(() => createRouter([{ to: 'bus', topic: '' }], ['bus'])).toThrow(/routes\[0\]\.topic/)
  })
})

describe('without routes', () => {
  it('everything goes to the only destination', () => {
    expect(createRouter(undefined, ['bus'])(event('x', 'y'))).toEqual({ to: 'bus' })
    expect(createRouter([], ['bus'])(event('x', 'y'))).toEqual({ to: 'bus' })
  })

  it('several destinations, or none, are refused', () => {
    expect(() => createRouter(undefined, ['a', 'b'])).toThrow(/which of the 2 destinations .*\(a, b\)/)
    expect(() => createRouter([], [])).toThrow(/at least one destination/)
  })
})

describe('a function as route', () => {
  const router = (route: Route) => createRouter(route, ['hook', 'bus'])

  it('may look at the headers and choose topic and url', () => {
    const route = router(({ headers }) => ({
      to: 'hook',
      topic: headers['t']!,
      url: `https://${headers['t']}.test/`,
    }))
    expect(route(event('a', 'b', '{"t": "north"}'))).toEqual({
      to: 'hook',
      topic: 'north',
      url: 'https://north.test/',
    })
  })

  it('that throws makes that event undeliverable, whatever it throws', () => {
    for (const [thrown, text] of [
      [new Error('no tenant'), /the route function failed: no tenant/],
      [undefined, /the route function failed: thrown: undefined/],
      ['text', /the route function failed: text/],
    ] as const) {
      const route = router(() => {
        throw thrown
      })
      expect(() => route(event('a', 'b'))).toThrow(
        expect.objectContaining({ code: 'EVENT_UNDELIVERABLE', message: expect.stringMatching(text) }),
      )
    }
  })

  it('that meets bad headers says what is wrong with them', () => {
    const route = router(({ headers }) => ({ to: headers['t']! }))
    expect(() => route(event('a', 'b', '{"t": 1}'))).toThrow(/^header "t" must be a string/)
  })

  it.each([
    [() => ({ to: 'hok' }), /unknown destination "hok", did you mean "hook"\?/],
    [() => ({ to: 7 }), /must return \{to, topic\?, url\?\} or null/],
    [() => 'hook', /must return \{to, topic\?, url\?\} or null/],
    [() => ({ to: 'hook', topic: 7 }), /topic that is not text/],
    [() => ({ to: 'hook', url: new URL('https://x.test') }), /url that is not text/],
    [() => Promise.resolve({ to: 'hook' }), /returned a promise/],
    [() => Promise.reject(new Error('late')), /returned a promise/],
  ])('that answers %o makes that event undeliverable', (answer, text) => {
    const route = router(answer as never)
    expect(() => route(event('a', 'b'))).toThrow(
      expect.objectContaining({ code: 'EVENT_UNDELIVERABLE', message: expect.stringMatching(text) }),
    )
  })

  it('may answer null or nothing for no route', () => {
    expect(router(() => null)(event('a', 'b'))).toBeNull()
    expect(router(() => undefined as never)(event('a', 'b'))).toBeNull()
  })
})

describe('a pattern', () => {
  it.each([
    ['order', 'order', true],
    ['order', 'orders', false],
    ['*', '', true],
    ['*', 'anything', true],
    ['invoice.*', 'invoice.', true],
    ['invoice.*', 'invoice', false],
    ['*.created', 'order.created', true],
    ['a*b*c', 'abc', true],
    ['a*b*c', 'axxbyyc', true],
    ['a*b*c', 'acb', false],
    ['ab*ba', 'aba', false],
    ['ab*ba', 'abba', true],
    ['a**b', 'ab', true],
    ['*a*a*', 'a', false],
    ['*a*a*', 'aa', true],
    ['a.c', 'abc', false],
    ['order[*', 'order[1]', true],
  ])('%s on %s is %s', (pattern, text, matches) => {
    expect(compilePattern(pattern)(text)).toBe(matches)
  })

  it('with many stars is as fast on a text that nearly matches as on any other', () => {
    const matches = compilePattern(`${'a*'.repeat(100)}b`)
    const started = performance.now()
    expect(matches('a'.repeat(255))).toBe(false)
    expect(matches('a'.repeat(200_000))).toBe(false)
    expect(performance.now() - started).toBeLessThan(1000)
  })
})
