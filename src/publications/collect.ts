import type { Connection } from '../database/connection.ts'
import {
  type BucketFact,
  type CommitFact,
  type IntentFact,
  findBucket,
  findCommit,
  findIntent,
} from './facts/intent.ts'
import {
  type ConsumerFact,
  type ProjectionFact,
  findConsumer,
  findConsumerOfEvent,
  findConsumersHere,
  findProjection,
} from './facts/consumer.ts'
import { type Fact, findFact, notConfigured, valueOf } from './facts/fact.ts'
import {
  type AnswerFact,
  type ReplayFact,
  type DecisionFact,
  findAnswer,
  findDecisions,
  findReplays,
} from './facts/record.ts'
import { type DestinationFact, findDestinations } from './facts/destinations.ts'
import { type ReadFact, findRead } from './facts/read.ts'
import { type SourceFact, findSource } from './facts/source.ts'
import type { TraceKey } from './key.ts'
import type { Place, Publication } from './publication.ts'

/** A database with Waybill's tables, the outbox or a consumer's. */
export interface Database {
  readonly db: Connection
  readonly schema: string
}

/** Where the facts are looked up. */
export interface FactSources {
  readonly outbox: Database
  /** The database of a consumer or projection; that of the outbox where nothing else is configured. */
  databaseOf(place: Place): Database
  /** Limit for each fact but public reads, which have their own, in milliseconds. Default: 5 000. */
  readonly timeoutMs?: number
}

export interface Named<T> {
  readonly name: string
  readonly fact: Fact<T>
}

/**
 * Everything that is known of one publication of one revision, by owner. Of an event without a revision `intent` is the
 * event itself, and nothing can be asked of the source, the projections and the public reads.
 */
export interface Facts {
  readonly source: Fact<SourceFact>
  /** What the write API answered, and when. */
  readonly answer: Fact<AnswerFact | null>
  readonly intent: Fact<IntentFact>
  readonly commit: Fact<CommitFact | null>
  readonly bucket: Fact<BucketFact>
  /** What the live relays say of the destinations. */
  readonly destinations: Fact<readonly DestinationFact[]>
  readonly replays: Fact<readonly ReplayFact[]>
  readonly decisions: Fact<readonly DecisionFact[]>
  readonly consumers: readonly Named<ConsumerFact>[]
  readonly projections: readonly Named<ProjectionFact>[]
  readonly reads: readonly Named<ReadFact>[]
}

/** Asks all owners. Each look fails alone, and none waits for another's database. Never rejects. */
export async function collectFacts(
  sources: FactSources,
  key: TraceKey,
  publication: Publication | null,
): Promise<Facts> {
  const { outbox, timeoutMs = 5_000 } = sources
  const { db, schema } = outbox
  const inOutbox = <T>(name: string, look: () => Promise<T>) => findFact(`outbox ${name}`, timeoutMs, look)
  const published = key.revision === null ? null : key
  const looks = {
    source:
      publication === null || published === null
        ? notConfigured('source')
        : findFact(`table ${publication.source.table}`, timeoutMs, () =>
            findSource(db, publication, key.id, published.revision),
          ),
    answer:
      published === null
        ? notConfigured('outbox publication_heads')
        : inOutbox('publication_heads', () => findAnswer(db, schema, published)),
    intent: inOutbox('outbox_events', () => findIntent(db, schema, key)),
    commit: inOutbox('commit time', () => findCommit(db, schema, key)),
    bucket: inOutbox('outbox_buckets', () => findBucket(db, schema, key)),
    destinations: inOutbox('outbox_relays', () => findDestinations(db, schema)),
    replays: inOutbox('replays', () => findReplays(db, schema, key)),
    decisions: inOutbox('decisions', () => findDecisions(db, schema, key)),
  }
  const ofPlaces = <P extends Place, T>(
    places: readonly P[],
    kind: string,
    look: (database: Database, place: P) => Promise<T>,
  ) =>
    Promise.all(
      places.map(async (place) => ({
        name: place.name,
        fact: await findFact(`${kind} ${place.name}`, timeoutMs, async () =>
          look(sources.databaseOf(place), place),
        ),
      })),
    )
  // A role that may not read the consumers leaves them unknown.
  const here = publication === null ? inOutbox('consumers', () => findConsumersHere(db, schema, key)) : null
  const consumersOf = publication?.consumers ?? (here === null ? [] : (valueOf(await here) ?? []))
  const [consumers, projections, reads] = await Promise.all([
    ofPlaces(consumersOf, 'consumer', (at, { name }) =>
      key.revision === null
        ? findConsumerOfEvent(at.db, at.schema, name, key)
        : findConsumer(at.db, at.schema, name, key),
    ),
    ofPlaces(published === null ? [] : (publication?.projections ?? []), 'projection', (at, place) =>
      findProjection(at.db, at.schema, place, key),
    ),
    Promise.all(
      (published === null ? [] : (publication?.reads ?? [])).map(async (read) => ({
        name: read.name,
        fact: await findFact(`read ${read.name}`, read.timeoutMs, (signal) =>
          findRead(read, published!, signal),
        ),
      })),
    ),
  ])
  return {
    source: await looks.source,
    answer: await looks.answer,
    intent: await looks.intent,
    commit: await looks.commit,
    bucket: await looks.bucket,
    destinations: await looks.destinations,
    replays: await looks.replays,
    decisions: await looks.decisions,
    ...{ consumers, projections, reads },
  }
}
