import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../cli/cli.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { startCli } from '../support/processes.ts'
import { startReceiver } from '../support/receiver.ts'
import { startCluster, untilMoved } from './cluster.ts'
import { eventually, expectWhole, relaySessions } from './kit.ts'

test('after a failover every session of a relay process is with the new primary within 10 s, without a restart', async () => {
  const cluster = await startCluster()
  const { primary, standby, ledger, on } = cluster
  const receiver = await startReceiver(({ headers, body }) => {
    ledger.arrived({ eventId: headers['x-waybill-event-id']!, body })
    return 204
  })
  atEndOfFile(() => receiver.stop())
  const cwd = await temporaryFolder()
  const config = { destinations: { hook: { type: 'webhook', url: `${receiver.origin}/` } } }
  await writeFile(join(cwd, 'waybill.config.json'), JSON.stringify(config))
  const relay = startCli(['relay', '--port', '0'], { cwd, database: cluster })
  const [, api] = await relay.line(/"url":"(http:[^"]+)"/)
  await relay.line(/"event":"relay.buckets".*"owned":64/)
  const writers = ledger.startWriters()
  await ledger.untilArrivals(50)
  const listEvents = async () => (await fetch(`${api}/api/v1/events?limit=1`)).status
  expect(await listEvents()).toBe(200)
  // Beside the relay's own those that count, that prune, and that answer requests.
  const all = [...relaySessions, 'waybill admin', 'waybill prune', 'waybill sample']
  await eventually('all sessions are there', async () => {
    const there = await cluster.sessions(primary)
    return all.every((name) => there.includes(name))
  })
  await cluster.makeReadOnly()
  const at = await cluster.failOver()
  await untilMoved(cluster, relaySessions)
  expect(performance.now() - at).toBeLessThan(10_000)
  expect(await listEvents()).toBe(200)
  await ledger.untilArrivals(50)
  expect(await on(primary).rows('SELECT 1 AS alive')).toEqual([{ alive: 1 }])
  await writers.stop()
  await ledger.untilDelivered()
  await expectWhole(ledger, on(standby))
  relay.signal('SIGTERM')
  expect(await relay.exit).toEqual({ code: 0, signal: null })
})
