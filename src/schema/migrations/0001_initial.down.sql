-- Waybill 0001, back: removes everything that 0001 made, events included. The schema itself stays.
DROP VIEW IF EXISTS "waybill".publication_intents, "waybill".outbox_dead_letters,
  "waybill".consumer_dead_letters;
DROP TABLE IF EXISTS "waybill".consumer_effects, "waybill".consumer_instances, "waybill".consumers,
  "waybill".consumer_messages, "waybill".projection_revisions, "waybill".processed_events,
  "waybill".decisions, "waybill".replays, "waybill".publication_heads, "waybill".outbox_tasks,
  "waybill".outbox_buckets, "waybill".outbox_events, "waybill".outbox_relays;
DROP FUNCTION IF EXISTS "waybill".outbox_publish_intents(jsonb);
DROP FUNCTION IF EXISTS "waybill".outbox_own_intent(text, text, bigint, text, text, jsonb);
DROP FUNCTION IF EXISTS "waybill".outbox_has_intent(text, text, bigint, text);
DROP FUNCTION IF EXISTS "waybill".outbox_wakeup();
DROP FUNCTION IF EXISTS "waybill".outbox_bucket(text, text);
