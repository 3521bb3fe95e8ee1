-- Waybill 0001: the outbox, the bookkeeping of the relay, the consumer side.
-- Runs as it stands for a schema named waybill and for 64 buckets; the migrator puts in other names and numbers.

CREATE SCHEMA IF NOT EXISTS "waybill";

-- Which bucket a pair belongs to. Chained hashes keep ('a','bc') and ('ab','c') apart; COLLATE "C" makes the
-- result independent of the database's collation; hashtextextended is what hash partitioning relies on, so
-- it is stable across majors. Written as one expression without SET, so that PostgreSQL inlines it.
CREATE FUNCTION "waybill".outbox_bucket(aggregate_type text, aggregate_id text) RETURNS smallint
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  AS $waybill$
    SELECT ((pg_catalog.hashtextextended(
      aggregate_id COLLATE "C", pg_catalog.hashtextextended(aggregate_type COLLATE "C", 0)
    ) & 9223372036854775807) % 64 /* buckets */)::smallint
  $waybill$;

CREATE TABLE "waybill".outbox_events (
  id              uuid        NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY WITH (fillfactor = 50),
  aggregate_type  text        NOT NULL CHECK (char_length(aggregate_type) BETWEEN 1 AND 255),
  aggregate_id    text        NOT NULL CHECK (char_length(aggregate_id) BETWEEN 1 AND 255),
  event_type      text        NOT NULL CHECK (char_length(event_type) BETWEEN 1 AND 255),
  payload         jsonb       NOT NULL,
  headers         jsonb       NOT NULL DEFAULT '{}',
  revision        bigint      CHECK (revision >= 0),
  intent_scope    text        NOT NULL DEFAULT '' CHECK (char_length(intent_scope) <= 100),
  operation_id    text,
  attempts        integer     NOT NULL DEFAULT 0,
  crashes         integer     NOT NULL DEFAULT 0,
  retry_after     timestamptz,
  last_attempt_at timestamptz,
  last_error      text,
  created_at      timestamptz NOT NULL DEFAULT now(),
  processed_at    timestamptz,
  dead_at         timestamptz,
  holds           boolean     NOT NULL DEFAULT false,
  discarded_at    timestamptz,
  receipt         text,
  position        bigint      GENERATED ALWAYS AS IDENTITY,
  xid             xid8        NOT NULL DEFAULT pg_current_xact_id()
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05,
        autovacuum_analyze_scale_factor = 0.05);

COMMENT ON TABLE "waybill".outbox_events IS
  'Waybill: events to deliver. INSERT the pair, event_type and payload; everything else has a default.';
COMMENT ON COLUMN "waybill".outbox_events.crashes IS
  'deaths of a relay while it handled this event; any settlement sets it back to 0';
COMMENT ON COLUMN "waybill".outbox_events.holds IS
  'a dead letter that keeps the later events of its aggregate back until it is retried or discarded';

-- What a relay reads: pending rows of a bucket in order. Small whatever was published, free of dead letters. The
-- bucket is an expression, not a stored generated column: PostgreSQL 18 sets up a generated column anew for each row
-- that an UPDATE touches, which doubled the cost of marking.
CREATE INDEX outbox_events_pending
  ON "waybill".outbox_events ("waybill".outbox_bucket(aggregate_type, aggregate_id), position)
  WHERE processed_at IS NULL AND dead_at IS NULL AND discarded_at IS NULL;

-- Pages of `list` in position order, and the sweep of the pruner. Half full: a mark adds an entry beside the first.
CREATE UNIQUE INDEX outbox_events_position ON "waybill".outbox_events (position) WITH (fillfactor = 50);

-- One intent for each revision and scope.
CREATE UNIQUE INDEX outbox_events_revision
  ON "waybill".outbox_events (aggregate_type, aggregate_id, revision, intent_scope)
  WHERE revision IS NOT NULL;

-- Exactly the events that hold their aggregate back: those that failed and will be tried again, and dead letters
-- that hold. Finds what blocks an aggregate and counts blocked aggregates, whatever the number of dead letters.
CREATE INDEX outbox_events_troubled ON "waybill".outbox_events (aggregate_type, aggregate_id, position)
  WHERE processed_at IS NULL AND discarded_at IS NULL AND last_attempt_at IS NOT NULL
    AND (dead_at IS NULL OR holds);

-- Dead letters that hold their aggregate (nothing else has `holds`): read once by each new owner of a bucket.
CREATE INDEX outbox_events_holding
  ON "waybill".outbox_events ("waybill".outbox_bucket(aggregate_type, aggregate_id))
  WHERE holds AND processed_at IS NULL AND discarded_at IS NULL;

CREATE INDEX outbox_events_dead ON "waybill".outbox_events (position)
  WHERE dead_at IS NOT NULL AND processed_at IS NULL AND discarded_at IS NULL;

CREATE TABLE "waybill".outbox_relays (
  relay_id      uuid        PRIMARY KEY,
  host          text        NOT NULL,
  process_id    integer     NOT NULL,
  version       text        NOT NULL,
  started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at    timestamptz NOT NULL,
  asleep_until  timestamptz,
  info          jsonb       NOT NULL DEFAULT '{}'
);
COMMENT ON TABLE "waybill".outbox_relays IS
  'live relays; host and process_id are for people only. asleep_until: wants a NOTIFY until then';

CREATE TABLE "waybill".outbox_buckets (
  bucket        smallint    PRIMARY KEY,
  owner         uuid,
  epoch         bigint      NOT NULL DEFAULT 0,
  leased_until  timestamptz,
  read_at       timestamptz,
  rescan        bigint      NOT NULL DEFAULT 0,
  suspected     uuid
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);
COMMENT ON TABLE "waybill".outbox_buckets IS
  'the lease of each bucket; epoch is the fencing token and grows with each change of owner; read_at: when the owner last read it; rescan: raised by a command that put rows back, so that the owner reads from the start; suspected: an owner that died, while the events that were under way at its death are not all tried again';
INSERT INTO "waybill".outbox_buckets (bucket) SELECT generate_series(0, 64 /* buckets */ - 1);

-- Work that one relay at a time does for all: taking the sample of counts, pruning, auditing publications.
CREATE TABLE "waybill".outbox_tasks (
  name          text        PRIMARY KEY,
  owner         uuid,
  leased_until  timestamptz,
  finished_at   timestamptz,
  result        jsonb
);
INSERT INTO "waybill".outbox_tasks (name) VALUES ('sample'), ('prune'), ('audit');

CREATE TABLE "waybill".publication_heads (
  aggregate_type   text        NOT NULL,
  aggregate_id     text        NOT NULL,
  intent_scope     text        NOT NULL DEFAULT '',
  revision         bigint      NOT NULL,
  event_id         uuid        NOT NULL,
  relayed_at       timestamptz,
  relayed_revision bigint,
  answered_at      timestamptz,
  operation_id     text,
  PRIMARY KEY (aggregate_type, aggregate_id, intent_scope)
);
COMMENT ON TABLE "waybill".publication_heads IS
  'the newest published revision of each aggregate, kept after retention; relayed_at belongs to revision, relayed_revision is the newest revision known to be relayed; answered_at: when the write API was about to answer that this revision is accepted';

CREATE TABLE "waybill".replays (
  event_id      uuid        NOT NULL,
  number        integer     NOT NULL,
  state         text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'relayed', 'dead')),
  requested_by  text        NOT NULL,
  reason        text        NOT NULL,
  requested_at  timestamptz NOT NULL DEFAULT now(),
  relayed_at    timestamptz,
  attempts      integer     NOT NULL DEFAULT 0,
  retry_after   timestamptz,
  last_error    text,
  receipt       text,
  PRIMARY KEY (event_id, number)
);
CREATE UNIQUE INDEX replays_open ON "waybill".replays (event_id) WHERE state = 'pending';

CREATE TABLE "waybill".decisions (
  id            uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
  action        text        NOT NULL,
  aggregate_type text,
  aggregate_id  text,
  revision      bigint,
  intent_scope  text,
  event_id      uuid,
  decided_by    text        NOT NULL,
  reason        text        NOT NULL,
  details       jsonb       NOT NULL DEFAULT '{}',
  decided_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX decisions_decided_at ON "waybill".decisions (decided_at);

-- The consumer side. May live in another database; the same migrations make it there.
CREATE TABLE "waybill".processed_events (
  consumer       text        NOT NULL CHECK (char_length(consumer) BETWEEN 1 AND 100),
  event_id       text        NOT NULL CHECK (char_length(event_id) BETWEEN 1 AND 255),
  result         text        NOT NULL CHECK (result IN ('applied', 'stale', 'rejected', 'parked')),
  aggregate_type text,
  aggregate_id   text,
  revision       bigint,
  attempts       integer     NOT NULL DEFAULT 0,
  replay         integer     NOT NULL DEFAULT 0,
  error          text,
  received_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  processed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (consumer, event_id)
);
-- What a trace and an audit ask: which consumer made what of a revision.
CREATE INDEX processed_events_aggregate
  ON "waybill".processed_events (aggregate_type, aggregate_id, revision, consumer);
COMMENT ON TABLE "waybill".processed_events IS
  'the inbox: what each consumer has handled, with the result; its dedupe memory. replay: the newest deliberate replay that was handled';
-- The sweep of the dedupe memory.
CREATE INDEX processed_events_processed_at ON "waybill".processed_events (consumer, processed_at);

-- Messages that a consumer could not finish yet: tries are counted here, so that they survive a restart.
-- failing: tried again, the broker has it. dead, retry, parked: acknowledged, so kept whole. rebuild: from the source.
CREATE TABLE "waybill".consumer_messages (
  consumer       text        NOT NULL CHECK (char_length(consumer) BETWEEN 1 AND 100),
  event_id       text        NOT NULL CHECK (char_length(event_id) BETWEEN 1 AND 255),
  state          text        NOT NULL CHECK (state IN ('failing', 'dead', 'retry', 'parked', 'rebuild')),
  event_type     text,
  aggregate_type text,
  aggregate_id   text,
  revision       bigint,
  projection     text,
  attempts       integer     NOT NULL DEFAULT 0,
  crashes        integer     NOT NULL DEFAULT 0,
  error          text,
  origin         text,
  delivery       json,
  body           bytea,
  created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  changed_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (consumer, event_id),
  CHECK (state = 'failing' OR (delivery IS NOT NULL AND body IS NOT NULL))
);
COMMENT ON COLUMN "waybill".consumer_messages.crashes IS
  'tries that began and of which no end is known: the process may have died of them';
COMMENT ON COLUMN "waybill".consumer_messages.delivery IS 'the message as it was delivered, without its body';
CREATE INDEX consumer_messages_retry ON "waybill".consumer_messages (consumer, state, created_at, event_id) WHERE state IN ('retry', 'rebuild');
CREATE INDEX consumer_messages_dead ON "waybill".consumer_messages (consumer, changed_at, event_id) WHERE state IN ('dead', 'retry');
CREATE INDEX consumer_messages_parked
  ON "waybill".consumer_messages (consumer, projection, aggregate_type, aggregate_id, revision)
  WHERE state = 'parked';

-- One row for each consumer: what it handles, and since when it works without a long stop, for the sake of clean-up.
CREATE TABLE "waybill".consumers (
  consumer       text        PRIMARY KEY CHECK (char_length(consumer) BETWEEN 1 AND 100),
  handlers       text[]      NOT NULL DEFAULT '{}',
  seen_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  resumed_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  stopped_for    interval    NOT NULL DEFAULT '0',
  cleaned_at     timestamptz
);
CREATE TABLE "waybill".consumer_instances (
  consumer       text        NOT NULL CHECK (char_length(consumer) BETWEEN 1 AND 100),
  instance_id    uuid        NOT NULL,
  subscription   text,
  handlers       text[]      NOT NULL DEFAULT '{}',
  host           text        NOT NULL,
  process_id     integer     NOT NULL,
  version        text        NOT NULL,
  started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at     timestamptz NOT NULL,
  PRIMARY KEY (consumer, instance_id)
);
COMMENT ON TABLE "waybill".consumer_instances IS 'live processes of each consumer';

CREATE TABLE "waybill".projection_revisions (
  projection     text        NOT NULL CHECK (char_length(projection) BETWEEN 1 AND 100),
  aggregate_type text        NOT NULL,
  aggregate_id   text        NOT NULL,
  revision       bigint      NOT NULL,
  event_id       text        NOT NULL,
  applied_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (projection, aggregate_type, aggregate_id)
);

CREATE TABLE "waybill".consumer_effects (
  consumer       text        NOT NULL CHECK (char_length(consumer) BETWEEN 1 AND 100),
  effect_key     text        NOT NULL CHECK (char_length(effect_key) BETWEEN 1 AND 500),
  event_id       text        NOT NULL,
  done_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (consumer, effect_key)
);
CREATE INDEX consumer_effects_done_at ON "waybill".consumer_effects (consumer, done_at);

CREATE VIEW "waybill".outbox_dead_letters AS
  SELECT * FROM "waybill".outbox_events
  WHERE dead_at IS NOT NULL AND processed_at IS NULL AND discarded_at IS NULL;

CREATE VIEW "waybill".consumer_dead_letters AS
  SELECT consumer, event_id, event_type, aggregate_type, aggregate_id, revision, attempts, crashes, error, origin,
         state, created_at, changed_at
  FROM "waybill".consumer_messages
  WHERE state IN ('dead', 'retry');

CREATE VIEW "waybill".publication_intents AS
  SELECT aggregate_id || ':' || revision || CASE WHEN intent_scope = '' THEN '' ELSE '#' || intent_scope END
           AS intent_key,
         aggregate_type, aggregate_id, revision, intent_scope,
         CASE WHEN processed_at IS NOT NULL THEN 'relayed'
              WHEN dead_at IS NOT NULL OR discarded_at IS NOT NULL THEN 'dead' ELSE 'pending' END
           AS status,
         attempts, created_at, processed_at AS relayed_at, last_error, id AS event_id
  FROM "waybill".outbox_events
  WHERE revision IS NOT NULL;

-- The wake-up. Fires once for each statement and notifies only while a relay says that it sleeps: a NOTIFY takes a
-- cluster-wide lock until its commit is on disk, so a busy system must not notify. The channel is the table's oid.
-- Every name is qualified instead of setting a search_path: that would be a third of what this costs a writer.
CREATE FUNCTION "waybill".outbox_wakeup() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
  AS $waybill$
  BEGIN
    -- An old snapshot may show a relay awake that has long fallen asleep: then better notify for nothing.
    IF NOT pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read')
       OR EXISTS (SELECT FROM "waybill".outbox_relays
                  WHERE asleep_until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()) THEN
      PERFORM pg_catalog.pg_notify(pg_catalog.concat('waybill_', TG_RELID), '');
    END IF;
    RETURN NULL;
  END
  $waybill$;

CREATE TRIGGER outbox_wakeup AFTER INSERT ON "waybill".outbox_events
  FOR EACH STATEMENT EXECUTE FUNCTION "waybill".outbox_wakeup();

-- The event by which this very transaction has written exactly this intent, or NULL: lets a writer without SELECT
-- repeat a call. Sees nothing that the transaction did not write itself.
CREATE FUNCTION "waybill".outbox_own_intent(
  aggregate_type text, aggregate_id text, revision bigint, intent_scope text, event_type text, payload jsonb
) RETURNS uuid
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $waybill$
    SELECT e.id FROM "waybill".outbox_events AS e
    WHERE e.aggregate_type = $1 AND e.aggregate_id = $2 AND e.revision = $3 AND e.intent_scope = $4
      AND e.event_type = $5 AND e.payload = $6 AND e.xid = pg_current_xact_id_if_assigned()
  $waybill$;

-- True when somebody has written this intent: asked only after a unique violation, which says the same.
CREATE FUNCTION "waybill".outbox_has_intent(
  aggregate_type text, aggregate_id text, revision bigint, intent_scope text
) RETURNS boolean
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $waybill$
    SELECT EXISTS (
      SELECT FROM "waybill".outbox_events AS e
      WHERE e.aggregate_type = $1 AND e.aggregate_id = $2 AND e.revision = $3 AND e.intent_scope = $4
    )
  $waybill$;

-- Writes a batch of events of which some carry revisions, all or nothing, in one statement.
-- Each event: {id, aggregate_type, aggregate_id, event_type, payload, headers, revision, intent_scope,
-- operation_id}. Answers {"ok": true, "repeated": {index: id}}, where `repeated` names the events that this
-- transaction had written before, or says why nothing was written and leaves the transaction usable:
-- {"ok": false, "reason": "transaction"} outside a transaction,
-- {"ok": false, "reason": "revision", "index": i, "newest": r} on a conflict.
-- Heads are locked in one order, whatever the order of the batch, so that two batches cannot deadlock.
CREATE FUNCTION "waybill".outbox_publish_intents(events jsonb) RETURNS jsonb
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
  AS $waybill$
  DECLARE
    event record;
    newest bigint;
    own uuid;
    repeated jsonb := '{}';
    conflict jsonb;
    violated text;
  BEGIN
    IF pg_current_xact_id_if_assigned() IS NULL THEN
      RETURN '{"ok": false, "reason": "transaction"}';
    END IF;
    BEGIN
      FOR event IN
        SELECT e.ordinality - 1 AS index, e.value -> 'payload' AS payload, r.*
        FROM jsonb_array_elements(events) WITH ORDINALITY AS e(value, ordinality),
             jsonb_to_record(e.value) AS r(id uuid, aggregate_type text, aggregate_id text, event_type text,
                                           revision bigint, intent_scope text)
        WHERE r.revision IS NOT NULL
        ORDER BY r.aggregate_type COLLATE "C", r.aggregate_id COLLATE "C", r.intent_scope COLLATE "C", e.ordinality
      LOOP
        INSERT INTO "waybill".publication_heads AS h (aggregate_type, aggregate_id, intent_scope, revision, event_id)
        VALUES (event.aggregate_type, event.aggregate_id, event.intent_scope, event.revision, event.id)
        ON CONFLICT (aggregate_type, aggregate_id, intent_scope) DO UPDATE
          SET revision = excluded.revision, event_id = excluded.event_id, relayed_at = NULL, answered_at = NULL,
              operation_id = NULL
          WHERE h.revision < excluded.revision;
        CONTINUE WHEN FOUND;
        own := "waybill".outbox_own_intent(event.aggregate_type, event.aggregate_id, event.revision,
                                           event.intent_scope, event.event_type, event.payload);
        IF own IS NULL THEN
          SELECT h.revision INTO newest FROM "waybill".publication_heads AS h
          WHERE h.aggregate_type = event.aggregate_type AND h.aggregate_id = event.aggregate_id
            AND h.intent_scope = event.intent_scope;
          conflict := jsonb_build_object('ok', false, 'reason', 'revision', 'index', event.index,
                                         'newest', newest::text);
          RAISE EXCEPTION 'waybill: revision conflict' USING ERRCODE = 'WB001';
        END IF;
        repeated := repeated || jsonb_build_object(event.index::text, own);
      END LOOP;
      INSERT INTO "waybill".outbox_events
        (id, aggregate_type, aggregate_id, event_type, payload, headers, revision, intent_scope, operation_id)
      SELECT r.id, r.aggregate_type, r.aggregate_id, r.event_type, e.value -> 'payload', r.headers, r.revision,
             r.intent_scope, r.operation_id
      FROM jsonb_array_elements(events) WITH ORDINALITY AS e(value, ordinality),
           jsonb_to_record(e.value) AS r(id uuid, aggregate_type text, aggregate_id text, event_type text,
                                         headers jsonb, revision bigint, intent_scope text, operation_id text)
      WHERE NOT repeated ? (e.ordinality - 1)::text
      ORDER BY e.ordinality;
    -- Leaving the block takes back everything that it wrote.
    EXCEPTION
      WHEN SQLSTATE 'WB001' THEN
        RETURN conflict;
      WHEN unique_violation THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        IF violated <> 'outbox_events_revision' THEN
          RAISE;
        END IF;
        -- An INSERT from elsewhere wrote this revision and no head.
        SELECT jsonb_build_object('ok', false, 'reason', 'revision', 'index', e.ordinality - 1,
                                  'newest', r.revision::text) INTO STRICT conflict
        FROM jsonb_array_elements(events) WITH ORDINALITY AS e(value, ordinality),
             jsonb_to_record(e.value) AS r(aggregate_type text, aggregate_id text, revision bigint, intent_scope text)
        WHERE "waybill".outbox_has_intent(r.aggregate_type, r.aggregate_id, r.revision, r.intent_scope)
          AND NOT repeated ? (e.ordinality - 1)::text
        ORDER BY e.ordinality LIMIT 1;
        RETURN conflict;
    END;
    RETURN jsonb_build_object('ok', true, 'repeated', repeated);
  END
  $waybill$;
