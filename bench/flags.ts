import { parseArgs } from 'node:util'

export interface Flags {
  json: boolean
  quick: boolean
  write: boolean
  help: boolean
  withoutTools: boolean
  /** Names of parts; undefined: all of them. */
  only: readonly string[] | undefined
  /** Keys of contestants of the drain; undefined: all of them. */
  contestants: readonly string[] | undefined
  rounds: number | undefined
  profileFolder: string | undefined
}

export const usage = `Measures Waybill beside others, on a PostgreSQL of its own. Takes three quarters of an hour.

npm run bench -- [options]
  --quick           a tenth of the rows: for a look, its figures say little
  --json            one JSON object on standard output, as its last line
  --write           writes bench/RESULTS.md
  --only a,b        some parts: drain, logical, producers, latency, claim, memory, publishers,
                    operations
  --contestants a,b some of those that drain: article, standard (batchSize 200), thousand, publisher_2ms,
                    deleting, graphile_preset, graphile_tuned
  --rounds n        repeats of each part that has them
  --profile folder  CPU profiles of the relays
  --without-tools   as if pgbench and pg_recvlogical were not installed`

/** @throws Error with a sentence for people */
export function parseFlags(
  parameters: readonly string[],
  names: { parts: readonly string[]; contestants: readonly string[] },
): Flags {
  const { values } = parseArgs({
    args: [...parameters],
    options: {
      json: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      write: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
      'without-tools': { type: 'boolean', default: false },
      only: { type: 'string' },
      contestants: { type: 'string' },
      rounds: { type: 'string' },
      profile: { type: 'string' },
    },
  })
  const only = listOf(values.only, '--only', names.parts)
  const contestants = listOf(values.contestants, '--contestants', names.contestants)
  if (values.write && (values.quick || only !== undefined || contestants !== undefined)) {
    throw new Error('--write wants a full run: leave out --quick, --only and --contestants')
  }
  return {
    json: values.json,
    quick: values.quick,
    write: values.write,
    help: values.help,
    withoutTools: values['without-tools'],
    only,
    contestants,
    rounds: values.rounds === undefined ? undefined : roundsOf(values.rounds),
    profileFolder: values.profile,
  }
}

function listOf(
  text: string | undefined,
  flag: string,
  known: readonly string[],
): readonly string[] | undefined {
  const list = text?.split(',')
  const unknown = list?.find((name) => !known.includes(name))
  if (unknown === undefined) return list
  throw new Error(`expected ${flag} to name some of ${known.join(', ')}, got "${unknown}"`)
}

function roundsOf(text: string): number {
  const rounds = Number(text)
  if (Number.isInteger(rounds) && rounds >= 1 && rounds <= 100) return rounds
  throw new Error(`expected --rounds to be a whole number from 1 to 100, got "${text}"`)
}
