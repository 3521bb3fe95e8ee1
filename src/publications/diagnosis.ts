import { createConnection } from '../database/connection.ts'
import { checkSchemaName } from '../database/identifiers.ts'
import { checkText, usageInvalid } from '../input.ts'
import { type OptionsInput, record, resolveOptions } from '../options.ts'
import { show } from '../wording.ts'
import { type AuditOptions, type AuditReport, auditPublication } from './audit.ts'
import { collectFacts } from './collect.ts'
import {
  type DecidedIntent,
  type Decision,
  type IntentOptions,
  type Replay,
  type ReplayOptions,
  createIntent,
  listDecisions,
  replay,
  visibleRevision,
} from './decisions.ts'
import { openFactSources } from './fact-sources.ts'
import { type PublicationKey, checkRevision, checkScope } from './key.ts'
import { type RebuildOptions, type RebuildReport, rebuildProjection } from './rebuild.ts'
import { publicationSpec } from './spec.ts'
import { type Trace, type TraceRequest, keyOfEvent, tracePublication } from './trace.ts'

/** One publication as it is written in the configuration. */
export type PublicationInput = OptionsInput<typeof publicationSpec>

export interface DiagnosisOptions {
  /** The database with the outbox. */
  databaseUrl: string
  /** Default: `waybill`. */
  schema?: string
  /** By aggregate type, as in the configuration file. */
  publications: Readonly<Record<string, PublicationInput>>
}

/** One revision of one aggregate. */
export interface RevisionKey {
  readonly type: string
  readonly id: string
  readonly revision: string | number | bigint
  /** Default: the empty scope. */
  readonly scope?: string
}

/** Answers where a publication is, and repeats what may be repeated: what the commands do, for a program. */
export interface Diagnosis {
  /**
   * The causal chain of one publication and what follows from it; without a revision of the newest. Never rejects
   * since an owner cannot be asked: that is a gap. Of an event without a revision the part that there is.
   *
   * @throws USAGE_INVALID, REVISION_UNKNOWN, EVENT_NOT_FOUND
   */
  trace(request: TraceRequest | { readonly eventId: string }): Promise<Trace>
  /** Looks at every revision of one publication. @throws CONFIGURATION_INVALID, DATABASE_UNREACHABLE */
  audit(publication: string, options?: AuditOptions): Promise<AuditReport>
  /** Creates an intent that is missing, with a reason. @throws USAGE_INVALID, ACTION_REFUSED */
  createIntent(key: RevisionKey, options: IntentOptions): Promise<DecidedIntent>
  /** Repeats exactly one key. @throws USAGE_INVALID, ACTION_REFUSED */
  replay(key: RevisionKey, options: Omit<ReplayOptions, 'visibleRevision'>): Promise<Replay>
  /**
   * Applies what the source has to a projection again, by the consumer that is at work, and waits until it has.
   *
   * @throws USAGE_INVALID, CONFIGURATION_INVALID, PERMISSION_DENIED; ACTION_REFUSED when no process of the consumer is
   *   at work
   */
  rebuild(projection: string, options?: RebuildOptions): Promise<RebuildReport>
  /** What was decided, the newest first. */
  decisions(filter?: {
    limit?: number
    aggregate?: readonly [type: string, id: string]
  }): Promise<readonly Decision[]>
  close(): Promise<void>
}

/**
 * Opens no connection before the first question.
 *
 * @throws CONFIGURATION_INVALID
 */
export function createDiagnosis(options: DiagnosisOptions): Diagnosis {
  const { databaseUrl } = options
  const schema = checkSchemaName(options.schema ?? 'waybill')
  const resolved = resolveOptions(record(publicationSpec), options.publications, { path: 'publications' })
  const db = createConnection({ databaseUrl, schema, writable: true, applicationName: 'waybill diagnosis' })
  const { sources, publications, close } = openFactSources(db, { schema, publications: resolved })
  const publicationOf = ({ type }: PublicationKey) => publications.get(type) ?? null

  return {
    trace: async (request) =>
      tracePublication(
        sources,
        publications,
        'eventId' in request ? await keyOfEvent(sources, request.eventId) : request,
      ),
    async audit(name, how) {
      const publication = publications.get(name)
      if (publication === undefined)
        throw usageInvalid(
          `unknown publication ${show(name)}, configured: ${[...publications.keys()].join(', ')}`,
        )
      return auditPublication(sources, publication, how)
    },
    createIntent: async (given, how) => {
      const key = checkKey(given)
      return createIntent(sources.outbox, publicationOf(key), key, how)
    },
    replay: async (given, how) => {
      const key = checkKey(given)
      const publication = publicationOf(key)
      const shown = visibleRevision(await collectFacts(sources, key, publication))
      return replay(sources.outbox, publication, key, { ...how, visibleRevision: shown })
    },
    rebuild: (projection, how) => rebuildProjection(sources, publications, projection, how),
    decisions: (filter) => listDecisions(sources.outbox, filter),
    async close() {
      await Promise.all([close(), db.close()])
    },
  }
}

function checkKey({ type, id, revision, scope }: RevisionKey): PublicationKey {
  return {
    type: checkText('aggregate type', type),
    id: checkText('aggregate id', id),
    revision: checkRevision(typeof revision === 'number' ? String(revision) : revision),
    scope: checkScope(scope),
  }
}
