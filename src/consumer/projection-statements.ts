/** $1 projection, $2 $3 aggregate: one at a time, also while no revision is stored yet. Until the transaction ends. */
export const lockProjection = `
  SELECT pg_advisory_xact_lock(hashtextextended($3::text, hashtextextended($2::text,
    hashtextextended($1::text, 1463900))))::text AS locked`

/**
 * $1 projection, $2 $3 aggregate, $4 revision, $5 event. Takes the revision when it is above the stored one. A second
 * transaction waits on the row for the first.
 */
export const takeNewer = `
  INSERT INTO "waybill".projection_revisions AS r
    (projection, aggregate_type, aggregate_id, revision, event_id)
  VALUES ($1::text, $2::text, $3::text, $4::text::bigint, $5::text)
  ON CONFLICT (projection, aggregate_type, aggregate_id) DO UPDATE
    SET revision = excluded.revision, event_id = excluded.event_id, applied_at = clock_timestamp()
    WHERE r.revision < excluded.revision
  RETURNING 1 AS taken`

/**
 * $1 projection, $2 $3 aggregate, $4 revision, $5 event, $6 the newest revision that is to come. Sets the revision back,
 * unless the projection has a newer one than that. Until the transaction ends nobody else takes a revision.
 */
export const stepBack = `
  INSERT INTO "waybill".projection_revisions AS r
    (projection, aggregate_type, aggregate_id, revision, event_id)
  VALUES ($1::text, $2::text, $3::text, $4::text::bigint, $5::text)
  ON CONFLICT (projection, aggregate_type, aggregate_id) DO UPDATE
    SET revision = excluded.revision, event_id = excluded.event_id
    WHERE r.revision <= $6::text::bigint
  RETURNING 1 AS stepped`

/** $1 projection, $2 $3 aggregate. */
export const readRevision = `
  SELECT revision::text, event_id, applied_at::text FROM "waybill".projection_revisions
  WHERE projection = $1::text AND aggregate_type = $2::text AND aggregate_id = $3::text`

/** $1 projection, $2 $3 aggregate. */
export const forgetRevision = `
  DELETE FROM "waybill".projection_revisions
  WHERE projection = $1::text AND aggregate_type = $2::text AND aggregate_id = $3::text`

/** The `event_id` of a revision that no event brought: somebody decided to go on without it. */
export const skippedMark = ''
