import * as v from 'valibot'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { validatePayload } from '../../src/outbox/catalogue.ts'

const catalogue = {
  'order.created': z.object({
    order_id: z.string(),
    lines: z.array(z.object({ quantity: z.number().positive() })),
  }),
  'card.added': v.object({ number: v.number(), tags: v.array(v.string()) }),
  'mail.sent': z.object({
    to: z.string().refine(async (to) => Promise.resolve(to.includes('@')), 'no address'),
  }),
  'user.renamed': z.object({ name: z.string().trim().default('nobody') }).strip(),
}
const validate = (type: string, payload: unknown, prefix = '') =>
  validatePayload(catalogue, type, payload, prefix)

describe('a payload', () => {
  test('that fits comes back as its schema returns it', () => {
    expect(validate('user.renamed', { name: ' Ada ', admin: true })).toEqual({ name: 'Ada' })
    expect(validate('user.renamed', {})).toEqual({ name: 'nobody' })
  })

  test('is validated asynchronously where the schema is asynchronous', async () => {
    const accepted = validate('mail.sent', { to: 'a@b' })
    expect(accepted).toBeInstanceOf(Promise)
    await expect(accepted).resolves.toEqual({ to: 'a@b' })
    await expect(validate('mail.sent', { to: 'nowhere' })).rejects.toMatchObject({
      code: 'PAYLOAD_INVALID',
      message: 'payload.to does not match the schema of "mail.sent": no address',
    })
  })

  test('that does not fit is refused with the path, by zod', () => {
    expect(() =>
      validate('order.created', { order_id: 'o', lines: [{ quantity: 1 }, { quantity: -5 }] }),
    ).toThrow(
      expect.objectContaining({
        code: 'PAYLOAD_INVALID',
        message: expect.stringMatching(
          /^payload\.lines\[1\]\.quantity does not match the schema of "order\.created": Too small/,
        ),
        details: {
          path: 'payload.lines[1].quantity',
          type: 'order.created',
          issues: [{ path: 'payload.lines[1].quantity', message: expect.any(String) }],
        },
      }),
    )
  })

  test('that does not fit is refused with the path, by valibot', () => {
    expect(() => validate('card.added', { number: 1, tags: ['a', 2] }, 'events[4].')).toThrow(
      /^events\[4\]\.payload\.tags\[1\] does not match the schema of "card\.added"/,
    )
  })

  test('of which more is wrong says how much more', () => {
    expect(() => validate('order.created', {})).toThrow(/^payload\.order_id .* \(and 1 more\)$/)
  })

  test('is not in the message, although valibot quotes what it received', () => {
    const schema = catalogue['card.added']['~standard'].validate({ number: '4111 1111', tags: [] })
    expect(JSON.stringify(schema)).toContain('4111 1111')
    const error = (() => {
      try {
        return validate('card.added', { number: '4111 1111', tags: [] })
      } catch (error) {
        return error as Error & { details: unknown }
      }
    })() as Error & { details: unknown }
    expect(error.message).toBe(
      'payload.number does not match the schema of "card.added": its value is not accepted, got a string',
    )
    expect(JSON.stringify(error.details)).not.toContain('4111')
  })

  test.each([
    ['x', 'Invalid input: expected number, received string'],
    ['in', 'Invalid input: expected number, received string'],
    ['string', 'Invalid input: expected number, received string'],
    ['a lot', 'Invalid input: expected number, received string'],
    [-1, 'Too small: expected number to be >10'],
    [1, 'Too small: expected number to be >10'],
  ])('that does not quote the value %j says what was expected', (total, message) => {
    const catalogue = { t: z.object({ total: z.number().gt(10) }) }
    expect(() => validatePayload(catalogue, 't', { total }, '')).toThrow(
      new RegExp(`^payload\\.total does not match the schema of "t": ${message}$`),
    )
  })

  test.each(['x', '5', 'number', 'a"b', 'a\\b', '4111 1111'])(
    'is not in the message, however short it is and wherever it is quoted: %j',
    (number) => {
      const custom = z.object({
        number: z.string().refine(() => false, { error: ({ input }) => `not ${JSON.stringify(input)}` }),
      })
      for (const schema of [v.object({ number: v.array(v.number()) }), custom]) {
        expect(() => validatePayload({ t: schema }, 't', { number }, '')).toThrow(
          /^payload\.number does not match the schema of "t": its value is not accepted, got a string$/,
        )
      }
    },
  )

  test('itself may be what is wrong', () => {
    expect(() => validate('card.added', null)).toThrow(/^payload does not match the schema of "card\.added"/)
  })

  test('of any kind is taken when there is no catalogue', () => {
    expect(validatePayload(undefined, 'anything', 5, '')).toBe(5)
  })
})

describe('a type that the catalogue does not know', () => {
  test.each(['order.creatd', 'toString', '__proto__', 'constructor'])('is refused: %s', (type) => {
    expect(() => validate(type, {})).toThrow(
      expect.objectContaining({
        code: 'EVENT_TYPE_UNKNOWN',
        message: `type ${JSON.stringify(type)} is not in the catalogue of events, which has "order.created", "card.added", "mail.sent", "user.renamed"`,
        details: { path: 'type', type },
      }),
    )
  })

  test('is named by its place in a batch, and a long catalogue is cut', () => {
    const many = Object.fromEntries(Array.from({ length: 8 }, (_, n) => [`t${n}`, z.any()]))
    expect(() => validatePayload(many, 'x', 1, 'events[1].')).toThrow(
      /^events\[1\]\.type "x" .*"t4" and 3 more$/,
    )
    expect(() => validatePayload({}, 'x', 1, '')).toThrow(/which has none$/)
  })
})
