import type { Diagnosis } from '../../src/publications/index.ts'
import type { FaultBoard, FaultStatus } from './fault-board.ts'
import { type Key, saysOf, traceKey } from './faults.ts'
import type { Network } from './network.ts'
import type { NotesService } from './notes-service.ts'
import type { PublicList } from './public-list.ts'

export interface StateParts {
  service: NotesService
  list: PublicList
  network: Network
  diagnosis: Diagnosis
  board: FaultBoard
  /** Where the page of a trace is. */
  pagesUrl: string
}

/** One revision, by the words of trace. */
interface Whereabouts extends Key {
  /** State, symptom where there is one, cause. */
  says: string
  tone: 'good' | 'open' | 'bad'
  /** Who acts next; null when nobody has to. */
  owner: string | null
  /** What may be run safely; null when nothing is wrong. */
  command: string | null
  /** How often the consumer has acknowledged it, and how often it has changed something. */
  arrived: number
  applied: number
  traceUrl: string
}

interface NoteState extends Whereabouts {
  body: string
  publicRevision: number | null
  publicBody: string | null
}

interface FaultState {
  name: string
  title: string
  does: string
  expected: string
  canMend: boolean
  status: FaultStatus
  hit: Whereabouts | null
}

export interface LabState {
  /** What was saved last stands first. */
  notes: NoteState[]
  faults: FaultState[]
}

const notesShown = 20
const longestText = 160

/** What the page shows. Those who ask at the same moment get the same answer. */
export function createState(parts: StateParts): () => Promise<LabState> {
  let asked: Promise<LabState> | undefined
  return () => (asked ??= describe(parts).finally(() => (asked = undefined)))
}

async function describe(parts: StateParts): Promise<LabState> {
  const { service, list, board } = parts
  const notes = await Promise.all(
    (await service.latest(notesShown)).map(async ({ id, revision, beginning }) => {
      const shown = await list.read(id)
      return {
        ...(await whereabouts(parts, { id, revision })),
        body: shorten(beginning),
        publicRevision: shown?.note.revision ?? null,
        publicBody: shown === undefined ? null : shorten(shown.note.body),
      }
    }),
  )
  const faults = await Promise.all(
    board.entries.map(async ({ fault, status, hit }) => {
      const { name, title, does, expected, mend } = fault
      const what = { name, title, does, expected, canMend: mend !== undefined, status }
      return { ...what, hit: hit === null ? null : await whereabouts(parts, hit) }
    }),
  )
  return { notes, faults }
}

async function whereabouts(
  { diagnosis, network, list, pagesUrl }: StateParts,
  key: Key,
): Promise<Whereabouts> {
  const trace = await traceKey(diagnosis, key)
  const { verdict, facts } = trace
  const { symptom, cause, owner, team, command } = verdict
  const eventId = facts.intent.status === 'known' ? (facts.intent.value.row?.eventId ?? null) : null
  return {
    ...key,
    says: saysOf(trace),
    tone: symptom !== null ? 'bad' : cause === 'visible' ? 'good' : 'open',
    owner: owner === null ? null : [owner, team].filter((word) => word !== null).join(', '),
    command: symptom === null ? null : command,
    arrived: eventId === null ? 0 : network.arrived(eventId),
    applied: await list.applied(key.id, key.revision),
    traceUrl: `${pagesUrl}/trace?${new URLSearchParams({ type: 'note', id: key.id, revision: String(key.revision) }).toString()}`,
  }
}

/** One huge text must not be all that can be seen. */
function shorten(text: string): string {
  const characters = [...text.slice(0, 2 * longestText + 2)]
  return characters.length <= longestText ? text : `${characters.slice(0, longestText).join('')}…`
}
