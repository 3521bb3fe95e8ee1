import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Pool } from 'pg'
import { startPostgres } from '../../scripts/embedded-postgres.ts'
import { type Diagnosis, createDiagnosis } from '../../src/publications/index.ts'
import { migrate } from '../../src/schema/index.ts'
import { createDatabase, openPool } from '../support/databases.ts'
import { freePort } from '../support/ports.ts'
import { type RelayProcess, type RelayProcessOptions, startRelay } from '../support/relay-process.ts'
import { type Fault, type Key, createFaults } from './faults.ts'
import { type Acknowledged, type Network, createNetwork } from './network.ts'
import { type NotesService, type Saved, createNotesService, notesTables } from './notes-service.ts'
import { type PublicList, createPublicList, publicTables } from './public-list.ts'
import { publicationsOf } from './publications.ts'
import { serveLab } from './web.ts'

/** The lab with everything that plays a part, running. */
export interface Stage {
  /** The page of the lab. */
  readonly url: string
  /** The HTTP server of the relay, where trace has its page. */
  readonly relayUrl: string
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

    const [port, networkPort, adminPort] = [await freePort(), await freePort(), await freePort()]
    const url = `http://127.0.0.1:${port}`
    const relayUrl = `http://127.0.0.1:${adminPort}`
    const network = createNetwork({ port: networkPort, target: `${url}/events`, onAcknowledged })
    await network.open()
    endings.push(() => network.close())

    const publicUrl = `${url}/public/notes`
    const publications = publicationsOf({ publicDatabaseUrl, publicUrl })
    const diagnosis = createDiagnosis({ databaseUrl, publications })
    endings.push(() => diagnosis.close())

    async function visible({ id, revision }: Key): Promise<void> {
      while (((await list.read(id))?.note.revision ?? 0) < revision) await delay(20, undefined, { signal })
    }

    const relay = await startRelay({
      configuration: fileURLToPath(new URL('waybill.config.ts', import.meta.url)),
      env: {
        ...{ DATABASE_URL: databaseUrl, PUBLIC_DATABASE_URL: publicDatabaseUrl, PUBLIC_URL: publicUrl },
        ...{ LIST_URL: network.url, LIST_SECRET: secret, WAYBILL_ADMIN_PORT: String(adminPort) },
      },
      ...(onLog === undefined ? {} : { onLog }),
      ...(onDeath === undefined ? {} : { onDeath }),
    })
    endings.push(() => relay.stop())
    print(`the relay runs as process ${relay.pid}`)
    const faults = createFaults({ service, network, list, relay, diagnosis, visible })
    const web = await serveLab({ port, relayUrl, service, list, diagnosis, faults })
    endings.push(() => web.close())
    const parts = { service, list, network, relay, diagnosis, faults, visible }
    return { url, relayUrl, databaseUrl, publicPool, ...parts, close }
  } catch (error) {
    await close()
    throw error
  }
}

async function endAll(endings: (() => Promise<unknown>)[]): Promise<void> {
  for (const end of endings.reverse()) await end()
}
