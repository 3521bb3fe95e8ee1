#!/usr/bin/env bash
# The tests on PostgreSQL 14 to 17, one major after the other; 18 is what `npm test` runs on. Without arguments all
# four, otherwise those that are named. Needs `npm ci --prefix test/postgres-majors`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The oldest, in a schema whose name has to be quoted: everything that uses the server of the run, but for what is
# about brokers, pages, examples and memory.
everything=(
  --project int --project e2e
  --exclude 'test/{brokers,demo,docs,examples}/**' --exclude 'test/faults/{matrix-,chain,brokers-}*'
  --exclude 'test/relay/slow-destinations.int.test.ts'
  --exclude 'test/admin/pages.e2e.test.ts' --exclude 'test/tooling/!(postgres).int.test.ts'
)
# Between the oldest and the newest: the schema, and what lives by it.
subset=(
  --project int test/{database,outbox,relay,schema}/ test/tooling/postgres
  --exclude 'test/relay/slow-destinations.int.test.ts'
)

[ $# -gt 0 ] || set -- 14 15 16 17
for major in "$@"; do
  export WAYBILL_TEST_POSTGRES_MAJOR=$major
  echo "== PostgreSQL $major"
  case $major in
    14) WAYBILL_TEST_SCHEMA='My"Schema' npx vitest run "${everything[@]}" ;;
    15 | 16 | 17) npx vitest run "${subset[@]}" ;;
    *)
      echo "expected 14, 15, 16 or 17, got \"$major\"" >&2
      exit 2
      ;;
  esac
done
