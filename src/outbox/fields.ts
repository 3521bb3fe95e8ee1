import { v7 } from 'uuid'
import type { EncodedEvent, EventFields } from './event.ts'
import { readHeaders } from './headers.ts'
import { eventInvalid } from './path.ts'
import { checkLength, kindOf } from './text.ts'

const maxRevision = 2n ** 63n - 1n
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

const known: Readonly<Record<keyof EventFields | 'type' | 'payload', true>> = {
  type: true,
  aggregate: true,
  payload: true,
  headers: true,
  revision: true,
  scope: true,
  operationId: true,
  id: true,
}

/** The fields of an event except its payload. */
export type ReadFields = Omit<EncodedEvent, 'payload'>

/**
 * Checks everything of an event but its payload. `prefix` is where it stands in a batch (`events[2].`), for messages.
 *
 * @throws EVENT_INVALID
 */
export function readFields(event: unknown, prefix: string): ReadFields {
  if (typeof event !== 'object' || event === null || Array.isArray(event)) {
    throw eventInvalid(
      prefix === '' ? 'the event' : prefix.slice(0, -1),
      `must be an object, got ${kindOf(event)}`,
    )
  }
  const unknown = Object.keys(event).find((key) => !Object.hasOwn(known, key))
  if (unknown !== undefined) {
    throw eventInvalid(
      `${prefix}${unknown.slice(0, 60)}`,
      `is no field of an event: use ${Object.keys(known).join(', ')}`,
    )
  }
  const fields = event as Partial<Record<keyof typeof known, unknown>>
  const [aggregateType, aggregateId] = readAggregate(fields.aggregate, `${prefix}aggregate`)
  const revision = readRevision(fields.revision, `${prefix}revision`)
  const scope = fields.scope === undefined ? '' : checkLength(fields.scope, `${prefix}scope`, 0, 100)
  if (scope !== '' && revision === null) {
    throw eventInvalid(
      `${prefix}scope`,
      'is given without a revision: it tells publications of one revision apart',
    )
  }
  return {
    id: fields.id === undefined ? v7() : readId(fields.id, `${prefix}id`),
    aggregateType,
    aggregateId,
    type: checkLength(fields.type, `${prefix}type`, 1, 255),
    headers: readHeaders(fields.headers, `${prefix}headers`),
    revision,
    scope,
    operationId:
      fields.operationId === undefined
        ? null
        : checkLength(fields.operationId, `${prefix}operationId`, 1, 255),
  }
}

export function readAggregate(value: unknown, path: string): [type: string, id: string] {
  if (!Array.isArray(value) || value.length !== 2) {
    throw eventInvalid(path, `must be a pair [type, id], got ${kindOf(value)}`)
  }
  const [type, id] = value as unknown[]
  const isNumber = typeof id === 'bigint' || Number.isSafeInteger(id)
  return [
    checkLength(type, `${path}[0]`, 1, 255),
    checkLength(isNumber ? String(id) : id, `${path}[1]`, 1, 255),
  ]
}

export function readRevision(value: unknown, path: string): bigint | null {
  if (value === undefined) return null
  const whole = typeof value === 'bigint' || Number.isSafeInteger(value)
  const revision = whole ? BigInt(value as bigint | number) : -1n
  if (revision < 0n || revision > maxRevision) {
    throw eventInvalid(path, 'must be a bigint from 0 to 2^63 - 1, or a safe integer of that range')
  }
  return revision
}

function readId(value: unknown, path: string): string {
  if (typeof value !== 'string' || !uuid.test(value)) {
    throw eventInvalid(path, 'must be a UUID such as "0197f6a0-2f43-7cc0-8000-5b1f0c0f7d11"')
  }
  return value.toLowerCase()
}
