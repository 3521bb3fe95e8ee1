import { WaybillError } from '../errors.ts'
import { intentKey } from '../intent-key.ts'
import { readAggregate, readRevision } from './fields.ts'
import { eventInvalid } from './path.ts'
import { checkLength } from './text.ts'

/** Which revision the write API is about to accept. */
export interface AcceptedInput {
  /** `[type, id]`, as it was published. */
  readonly aggregate: readonly [type: string, id: string | number | bigint]
  readonly revision: bigint | number
  /** Default: the one without a name. */
  readonly scope?: string
  /** The request's or job's id. Default: none. */
  readonly operationId?: string
}

/**
 * What a write API should answer: the revision was saved and its publication decided, in one transaction. It does not
 * say that anybody can read it yet. Plain JSON: the revision is decimal text.
 */
export interface Accepted {
  readonly status: 'accepted'
  readonly aggregate: { readonly type: string; readonly id: string }
  readonly revision: string
  /** `n-42:7`, or `n-42:7#scope`: what `waybill trace` is asked with. */
  readonly intentKey: string
  readonly operationId: string | null
}

export interface AcceptedKey {
  readonly type: string
  readonly id: string
  readonly revision: bigint
  readonly scope: string
  readonly operationId: string | null
}

/** @throws EVENT_INVALID */
export function readAccepted(input: AcceptedInput): AcceptedKey {
  const [type, id] = readAggregate(input.aggregate, 'aggregate')
  const revision = readRevision(input.revision, 'revision')
  if (revision === null) throw eventInvalid('revision', 'is missing: what is accepted is one revision')
  return {
    ...{ type, id, revision },
    scope: input.scope === undefined ? '' : checkLength(input.scope, 'scope', 0, 100),
    operationId:
      input.operationId === undefined ? null : checkLength(input.operationId, 'operationId', 1, 255),
  }
}

export function acceptedOf(key: AcceptedKey): Accepted {
  return {
    status: 'accepted',
    aggregate: { type: key.type, id: key.id },
    revision: String(key.revision),
    intentKey: intentKey(key),
    operationId: key.operationId,
  }
}

export function notAccepted(key: AcceptedKey): WaybillError {
  return new WaybillError(
    'REVISION_UNKNOWN',
    `revision ${key.revision} of ${JSON.stringify(key.type)} ${JSON.stringify(key.id)} is not the newest that was published: ` +
      'call publish with this revision in the same transaction, and accepted after it',
  )
}
