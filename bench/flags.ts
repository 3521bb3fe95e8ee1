import { parseArgs } from 'node:util'

export interface Flags {
  json: boolean
  quick: boolean
  write: boolean
  help: boolean
  withoutTools: boolean
  /** Names of parts; undefined: all of them. */
  only: readonly string[] | undefined
  rounds: number | undefined
  profileFolder: string | undefined
}

export const usage = `Measures Waybill beside others, on a PostgreSQL of its own. Takes about half an hour.

npm run bench -- [options]
  --quick           a tenth of the rows: for a look, its figures say little
  --json            one JSON object on standard output, as its last line
  --write           writes bench/RESULTS.md
  --only a,b        some parts: drain, logical, producers, latency, claim, memory
  --rounds n        repeats of each part that has them
  --profile folder  CPU profiles of the relays
  --without-tools   as if pgbench and pg_recvlogical were not installed`

/** @throws Error with a sentence for people */
export function parseFlags(parameters: readonly string[], parts: readonly string[]): Flags {
  const { values } = parseArgs({
    args: [...parameters],
    options: {
      json: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      write: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
      'without-tools': { type: 'boolean', default: false },
      only: { type: 'string' },
      rounds: { type: 'string' },
      profile: { type: 'string' },
    },
  })
  const only = values.only?.split(',')
  const unknown = only?.find((name) => !parts.includes(name))
  if (unknown !== undefined) {
    throw new Error(`expected --only to name some of ${parts.join(', ')}, got "${unknown}"`)
  }
  if (values.write && (values.quick || only !== undefined)) {
    throw new Error('--write wants a full run: leave out --quick and --only')
  }
  return {
    json: values.json,
    quick: values.quick,
    write: values.write,
    help: values.help,
    withoutTools: values['without-tools'],
    only,
    rounds: values.rounds === undefined ? undefined : roundsOf(values.rounds),
    profileFolder: values.profile,
  }
}

function roundsOf(text: string): number {
  const rounds = Number(text)
  if (Number.isInteger(rounds) && rounds >= 1 && rounds <= 100) return rounds
  throw new Error(`expected --rounds to be a whole number from 1 to 100, got "${text}"`)
}
