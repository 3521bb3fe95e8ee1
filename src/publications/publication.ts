import { quoteIdentifier } from '../database/identifiers.ts'
import { WaybillError } from '../errors.ts'
import { show } from '../wording.ts'

/** Where a consumer or a projection keeps what it knows. Left out: the database and schema of the outbox. */
export interface Place {
  readonly name: string
  readonly databaseUrl?: string | undefined
  readonly schema?: string | undefined
}

/** A projection; with `table` its own rows are looked at too, by the column with the id of the aggregate. */
export interface ProjectionPlace extends Place {
  readonly table?: string | undefined
  /** Default: `id`. */
  readonly id?: string | undefined
}

/** A public read: an HTTP GET whose answer tells a revision. */
export interface PublicRead {
  readonly name: string
  /** `{id}` stands for the id of the aggregate, `{revision}` for the revision. */
  readonly url: string
  /** `body.<path>` or `header.<name>`. */
  readonly revision: string
  readonly timeoutMs: number
}

/** One publication as it is configured: where the facts of its four owners stand. Its name is the aggregate type. */
export interface PublicationOptions {
  readonly source: {
    readonly table: string
    readonly id: string
    readonly revision: string
    readonly keeps: 'latest' | 'history'
  }
  readonly intent?: { readonly eventType: string; readonly payload?: string | undefined } | undefined
  readonly pendingLimitSeconds: number
  readonly owners: Readonly<Record<string, string>>
  readonly projections: readonly (string | ProjectionPlace)[]
  readonly consumers: readonly (string | Place)[]
  readonly reads: readonly PublicRead[]
}

export interface Publication {
  readonly name: string
  readonly source: {
    /** As people wrote it. */
    readonly table: string
    /** As SQL, quoted. */
    readonly from: string
    readonly id: string
    readonly revision: string
    readonly keeps: 'latest' | 'history'
  }
  readonly intent: { readonly eventType: string; readonly payload: string | null } | null
  readonly pendingLimitMs: number
  readonly owners: Readonly<Record<string, string>>
  readonly projections: readonly ProjectionPlace[]
  readonly consumers: readonly Place[]
  readonly reads: readonly PublicRead[]
}

/** @throws CONFIGURATION_INVALID */
export function createPublication(name: string, options: PublicationOptions): Publication {
  const { source, intent } = options
  return {
    name,
    source: {
      table: source.table,
      from: quoteTable(source.table),
      id: quoteIdentifier(source.id),
      revision: quoteIdentifier(source.revision),
      keeps: source.keeps,
    },
    intent: intent === undefined ? null : { eventType: intent.eventType, payload: intent.payload ?? null },
    pendingLimitMs: options.pendingLimitSeconds * 1000,
    owners: options.owners,
    projections: options.projections.map(placeOf<ProjectionPlace>),
    consumers: options.consumers.map(placeOf<Place>),
    reads: options.reads,
  }
}

function placeOf<P extends Place>(place: string | P): P {
  return typeof place === 'string' ? ({ name: place } as P) : place
}

const tableName = /^(?:("(?:[^"]|"")+"|[^".]+)\.)?("(?:[^"]|"")+"|[^".]+)$/

/**
 * A table's name as SQL: `notes`, `app.notes`, `"My.Schema"."notes"`. Without a schema the search path decides.
 *
 * @throws CONFIGURATION_INVALID
 */
export function quoteTable(table: string): string {
  const parts = tableName.exec(table)?.slice(1)
  if (parts === undefined) {
    throw new WaybillError(
      'CONFIGURATION_INVALID',
      `expected a table such as notes, app.notes or "My.Schema"."notes", got ${show(table)}`,
    )
  }
  return parts
    .filter((part) => part !== undefined)
    .map((part) => (part.startsWith('"') ? part : quoteIdentifier(part)))
    .join('.')
}
