import type { DestinationState, RelayStatus } from '../../operations/relays.ts'
import type { OutboxStatus } from '../../operations/status.ts'
import type { Action } from '../context.ts'
import { seconds } from '../event-columns.ts'
import type { Output } from '../output.ts'
import { tellConsumers } from '../consumers-text.ts'
import { duration, printable } from '../../wording.ts'
import { plural } from '../text.ts'

/** The outbox at a glance. */
export function statusCommand(): Action {
  return ({ output, withDatabase }) =>
    withDatabase(async (db, { schema }) => {
      const { readStatus } = await import('../../operations/status.ts')
      const { formatCount } = await import('../../operations/sample.ts')
      const { consumerCountLimit } = await import('../../operations/consumers-sample.ts')
      const status = await readStatus(db, schema)
      output.data(status)
      tellEvents(output, status, formatCount)
      tellRelays(output, status)
      tellDestinations(output, status)
      tellConsumers(output, status, (count) => formatCount(count, consumerCountLimit))
    })
}

function tellEvents(output: Output, status: OutboxStatus, format: (count: number) => string): void {
  const { counts, blockedAggregates, oldestPendingAgeSeconds: oldest, sampleAgeSeconds: age } = status
  const paint = (color: 'yellow' | 'red', count: number) =>
    count > 0 ? output.paint(color, format(count)) : format(count)
  const aggregates = blockedAggregates > 0 ? `, of ${plural(blockedAggregates, 'aggregate')}` : ''
  output.print(output.paint('bold', `events${age < 1 ? '' : ` (counted ${duration(age)} ago)`}`))
  output.print(`  pending   ${format(counts.pending)}`)
  output.print(`  retrying  ${paint('yellow', counts.retrying)}`)
  output.print(`  blocked   ${paint('yellow', counts.blocked)}${aggregates}`)
  output.print(`  dead      ${paint('red', counts.dead)}`)
  output.print(`  oldest    ${oldest === null ? 'nothing waits' : duration(oldest)}`)
  output.print()
}

const wakeups: Readonly<Record<NonNullable<OutboxStatus['wakeup']>, string>> = {
  notify: 'by notification',
  poll: 'by polling',
  pooled: 'by polling, because a transaction pooler stands between',
  mixed: 'some by notification, some by polling',
}

function tellRelays(output: Output, { relays, bucketCount, unownedBuckets, wakeup }: OutboxStatus): void {
  output.print(output.paint('bold', 'relays'))
  if (relays.length === 0) {
    output.print(`  ${output.paint('yellow', 'none is running: start one with "waybill relay"')}`)
  } else {
    output.print(`  woken     ${wakeup === null ? 'not told yet' : wakeups[wakeup]}`)
    const owned = `${bucketCount - unownedBuckets.length} of ${bucketCount} owned`
    output.print(`  buckets   ${unownedBuckets.length > 0 ? output.paint('yellow', owned) : owned}`)
    output.print()
    output.table<RelayStatus>(relays, [
      { title: 'relay', text: ({ id }) => id },
      { title: 'host', text: ({ host }) => host, limit: 30 },
      { title: 'process', text: ({ processId }) => String(processId), align: 'right' },
      { title: 'buckets', text: ({ buckets }) => String(buckets.length), align: 'right' },
      { title: 'version', text: ({ version }) => version },
      { title: 'started', text: ({ startedAt }) => seconds(startedAt) },
    ])
  }
  output.print()
}

function tellDestinations(output: Output, { destinations }: OutboxStatus): void {
  const entries = Object.entries(destinations)
  if (entries.length === 0) return
  output.print(output.paint('bold', 'destinations'))
  output.table<[string, DestinationState]>(entries, [
    { title: 'destination', text: ([name]) => name, limit: 40 },
    {
      title: 'state',
      text: ([, { state }]) => state,
      color: ([, { state }]) => (state === 'down' ? 'red' : state === 'up' ? 'green' : undefined),
    },
    { title: 'since', text: ([, { since }]) => seconds(since) },
    { title: 'error', text: ([, { error }]) => printable(error ?? ''), limit: 100 },
  ])
}
