import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Pool } from 'pg'
import { startPostgres } from '../../scripts/embedded-postgres.ts'
import { createAdminServer, createMetrics } from '../../src/admin/server.ts'
import { type Diagnosis, createDiagnosis } from '../../src/publications/index.ts'
import { createTelemetry } from '../../src/relay/index.ts'
import { migrate } from '../../src/schema/index.ts'
import { createDatabase, openPool } from '../support/databases.ts'
import { freePort } from '../support/ports.ts'
import { type RelayProcess, type RelayProcessOptions, startRelay } from '../support/relay-process.ts'
import { configurationOf, publicationsOf } from './configuration.ts'
import { createFaultBoard } from './fault-board.ts'
import { type Fault, type Key, createFaults } from './faults.ts'
import { type Acknowledged, type Network, createNetwork } from './network.ts'
import { type NotesService, type Saved, createNotesService, notesTables } from './notes-service.ts'
import { type PublicList, createPublicList, publicTables } from './public-list.ts'
import { serveLab } from './web.ts'

/** The lab with everything that plays a part, running. */
export interface Stage {
  /** The page of the lab. */
  readonly url: string
  /** Where trace has its page. The relay has the same pages, and takes them along when it dies. */
  readonly pagesUrl: string
  /** The line after which another terminal knows the command `waybill`. */
  readonly commandLine: string
  readonly databaseUrl: string
  readonly publicPool: Pool
  readonly service: NotesService
  readonly list: PublicList
  readonly network: Network
  readonly relay: RelayProcess
  readonly diagnosis: Diagnosis
  readonly faults: readonly Fault[]
  /** Resolves when readers see this revision, or a newer one. */
  visible(key: Key): Promise<void>
  /** Ends all of it, in reverse order. Idempotent. */
  close(): Promise<void>
}

export interface StageOptions {
  print: (line: string) => void
  signal: AbortSignal
  onSaved?: (saved: Saved) => void
  onAcknowledged?: (delivery: Acknowledged) => void
  onLog?: RelayProcessOptions['onLog']
  onDeath?: RelayProcessOptions['onDeath']
}

export async function setStage(options: StageOptions): Promise<Stage> {
  const { print, signal, onAcknowledged = () => undefined, onLog, onDeath } = options
  const endings: (() => Promise<unknown>)[] = []
  let closing: Promise<void> | undefined
  const close = () => (closing ??= endAll(endings))
  try {
    const postgres = await startPostgres()
    endings.push(() => postgres.stop())
    print(`PostgreSQL ${postgres.major} runs on port ${postgres.port}, in a temporary folder`)
    const databaseUrl = await createDatabase(postgres.url, 'notes', notesTables)
    const publicDatabaseUrl = await createDatabase(postgres.url, 'public_list', publicTables)
    await migrate({ databaseUrl })
    await migrate({ databaseUrl: publicDatabaseUrl })
    const pool = openPool(databaseUrl)
    const publicPool = openPool(publicDatabaseUrl)
    endings.push(() => Promise.all([pool.end(), publicPool.end()]))

    const secret = `whsec_${randomBytes(24).toString('base64')}`
    const service = createNotesService(pool, options.onSaved)
    const list = createPublicList({ pool: publicPool, secret })
    await list.consumer.start()
    endings.push(() => list.consumer.stop())

    const [port, networkPort] = [await freePort(), await freePort()]
    const url = `http://127.0.0.1:${port}`
    const network = createNetwork({ port: networkPort, target: `${url}/events`, onAcknowledged })
    await network.open()
    endings.push(() => network.close())

    const places = { databaseUrl, publicDatabaseUrl, publicUrl: `${url}/public/notes` }
    const configuration = configurationOf({ ...places, listUrl: network.url, secret })
    const publications = publicationsOf(places)
    const diagnosis = createDiagnosis({ databaseUrl, publications })
    endings.push(() => diagnosis.close())
    const pages = servePages(databaseUrl, publications, print)
    endings.push(() => pages.stop())
    const pagesUrl = (await pages.start()).url

    async function visible({ id, revision }: Key): Promise<void> {
      while (((await list.read(id))?.note.revision ?? 0) < revision) await delay(20, undefined, { signal })
    }

    // It goes with the folder of the server, also after a crash; it holds passwords.
    const file = join(dirname(postgres.dataDirectory), 'waybill.config.json')
    await writeFile(file, JSON.stringify(configuration, null, 2), { mode: 0o600 })
    const commandLine = `waybill() { npm run -s waybill -- --config '${file}' "$@"; }`
    const relay = await startRelay({
      ...{ configuration: file, env: {} },
      ...(onLog === undefined ? {} : { onLog }),
      ...(onDeath === undefined ? {} : { onDeath }),
    })
    endings.push(() => relay.stop())
    print(`the relay runs as process ${relay.pid}`)
    const faults = createFaults({ service, network, list, relay, diagnosis, visible })
    const board = createFaultBoard(faults)
    const web = await serveLab({ port, pagesUrl, commandLine, service, list, network, diagnosis, board })
    endings.push(() => web.close())
    const parts = { service, list, network, relay, diagnosis, faults, visible }
    return { url, pagesUrl, commandLine, databaseUrl, publicPool, ...parts, close }
  } catch (error) {
    await close()
    throw error
  }
}

async function endAll(endings: (() => Promise<unknown>)[]): Promise<void> {
  for (const end of endings.reverse()) await end()
}

/** The pages of trace and counts, in this process: they answer also while no relay lives. */
function servePages(
  databaseUrl: string,
  publications: ReturnType<typeof publicationsOf>,
  print: (line: string) => void,
) {
  const telemetry = createTelemetry()
  telemetry.on('admin.failed', ({ path, error }) => print(`the page ${path} failed: ${error}`))
  return createAdminServer({
    ...{ port: 0, database: { databaseUrl, schema: 'waybill', writable: true }, publications, telemetry },
    health: () => ({ live: true, ready: true, reason: null }),
    metrics: createMetrics({ telemetry }),
  })
}
