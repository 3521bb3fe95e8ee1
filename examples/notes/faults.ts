import type { Diagnosis } from '../../src/publications/index.ts'
import type { RelayProcess } from '../support/relay-process.ts'
import type { Network } from './network.ts'
import type { NotesService, Saved } from './notes-service.ts'
import type { PublicList } from './public-list.ts'

/** Which revision a fault has hit. */
export interface Key {
  id: string
  revision: number
}

export interface Fault {
  name: string
  /** On the button. */
  title: string
  /** What trace must say of the revision that it hit. */
  expected: string
  /** What audit must call it; null: nothing is wrong. */
  symptom: string | null
  /** Does it, to a note of its own. */
  inject(): Promise<Key>
  /** Undoes it, and repairs what it left. */
  heal(key: Key): Promise<void>
}

export interface FaultParts {
  service: NotesService
  network: Network
  list: PublicList
  relay: RelayProcess
  diagnosis: Diagnosis
  /** Resolves when readers see this revision. */
  visible(key: Key): Promise<void>
}

const overdue = { expected: 'intent-pending, intent-overdue, relay-late', symptom: 'intent-overdue' }
const fine = { expected: 'projection-current, visible', symptom: null }

/** Everything that can be done to the lab. */
export function createFaults(parts: FaultParts): readonly Fault[] {
  const { service, network, list, relay, diagnosis, visible } = parts
  const keyOf = ({ id, revision }: Saved): Key => ({ id, revision })
  const save = async (id: string, body: string) => keyOf(await service.save(id, body))

  /** Saves a note whose delivery meets a trick; resolves when the trick was played. */
  async function saveAnd(
    id: string,
    trick: (pass: () => Promise<number>, isOver: () => boolean) => Promise<number>,
  ): Promise<Key> {
    const played = new Promise<void>((resolve) => {
      network.play(id, async (hop) => {
        network.calm(id)
        try {
          return await trick(
            () => network.forward(hop),
            () => hop.isOver(),
          )
        } finally {
          resolve()
        }
      })
    })
    const key = await save(id, 'a note on its way')
    await played
    return key
  }

  return [
    {
      name: 'relay-killed-after-commit',
      title: 'Kill the relay after the commit',
      ...overdue,
      inject: () =>
        saveAnd('killed-early', async () => {
          await relay.kill({ hold: true })
          return 503
        }),
      heal: async () => relay.resume(),
    },
    {
      name: 'relay-killed-before-mark',
      title: 'Kill the relay between hand-over and mark',
      ...overdue,
      inject: () =>
        saveAnd('killed-late', async (pass) => {
          const status = await pass()
          await relay.kill({ hold: true })
          return status
        }),
      heal: async () => relay.resume(),
    },
    {
      name: 'broker-away',
      title: 'Take the broker away',
      ...overdue,
      async inject() {
        await network.close()
        return save('broker-away', 'nobody takes this')
      },
      heal: () => network.open(),
    },
    {
      name: 'delivered-twice',
      title: 'Deliver twice',
      ...fine,
      inject: () =>
        saveAnd('twice', async (pass) => {
          const [status] = await Promise.all([pass(), pass()])
          return status
        }),
      heal: async () => undefined,
    },
    {
      name: 'out-of-order',
      title: 'Deliver out of order',
      ...fine,
      // The network says that it has the first, and brings it after the second.
      async inject() {
        let late!: () => Promise<number>
        const first = await saveAnd('out-of-order', async (pass) => {
          late = pass
          return 204
        })
        await saveAnd('out-of-order', async (pass) => {
          const status = await pass()
          await late()
          return status
        })
        return first
      },
      heal: async () => undefined,
    },
    {
      name: 'consumer-rejects',
      title: 'Let the consumer reject',
      ...{ expected: 'intent-relayed, projection-old, consumer-rejected', symptom: 'projection-old' },
      inject() {
        list.refused.add('rejected')
        return save('rejected', 'nobody wants this')
      },
      async heal(key) {
        list.refused.delete(key.id)
        await diagnosis.replay({ type: 'note', ...key }, { reason: 'the consumer is mended', by: 'the lab' })
      },
    },
    {
      name: 'stale-cache',
      title: 'Let a cache go stale',
      ...{ expected: 'projection-current, public-read-old, cached', symptom: 'public-read-old' },
      async inject() {
        await visible(await save('cached', 'what the cache keeps'))
        await list.cache('cached')
        return save('cached', 'what readers should see')
      },
      heal: async ({ id }) => list.uncache(id),
    },
    {
      name: 'old-write-path',
      title: 'Write by an old path without intent',
      ...{ expected: 'note-only, intent-missing, no-intent', symptom: 'intent-missing' },
      inject: async () => keyOf(await service.saveOldWay('forgotten', 'saved, and nobody was told')),
      async heal(key) {
        await diagnosis.createIntent(
          { type: 'note', ...key },
          { reason: 'written by an old path', by: 'the lab' },
        )
      },
    },
  ]
}

/** What trace says, as faults expect it: state, symptom where there is one, cause. */
export async function found(diagnosis: Diagnosis, { id, revision }: Key): Promise<string> {
  const { verdict } = await diagnosis.trace({ type: 'note', id, revision: String(revision) })
  return [verdict.state, verdict.symptom, verdict.cause].filter((word) => word !== null).join(', ')
}
