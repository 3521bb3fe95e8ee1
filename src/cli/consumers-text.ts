import type { ConsumerInstance, ConsumerStatus } from '../operations/consumers.ts'
import type { OutboxStatus } from '../operations/status.ts'
import { seconds } from './event-columns.ts'
import type { Column, Output } from './output.ts'
import { duration } from '../wording.ts'

const unknown = '?'

type FormatCount = (count: number) => string

const columns = (format: FormatCount): readonly Column<ConsumerStatus>[] => [
  { title: 'consumer', text: ({ name }) => name, limit: 40 },
  {
    title: 'processes',
    text: ({ instances }) => String(instances.length),
    align: 'right',
    color: ({ instances }) => (instances.length === 0 ? 'yellow' : undefined),
  },
  {
    title: 'lag',
    text: ({ lagSeconds }) =>
      lagSeconds === null ? unknown : lagSeconds === 0 ? 'none' : duration(lagSeconds),
    align: 'right',
  },
  {
    title: 'dead',
    text: ({ deadLetters }) => (deadLetters === null ? unknown : format(deadLetters)),
    align: 'right',
    color: ({ deadLetters }) => ((deadLetters ?? 0) > 0 ? 'red' : undefined),
  },
  {
    title: 'parked',
    text: ({ parked }) => (parked === null ? unknown : format(parked)),
    align: 'right',
    color: ({ parked }) => ((parked ?? 0) > 0 ? 'yellow' : undefined),
  },
  { title: 'newest results', text: ({ results }) => resultsText(results) },
]

function resultsText(results: ConsumerStatus['results']): string {
  if (results === null) return unknown
  const { overSeconds, ...counts } = results
  const told = Object.entries(counts).filter(([, value]) => value > 0)
  if (told.length === 0) return 'none in the last hour'
  return `${told.map(([result, value]) => `${value} ${result}`).join(', ')} in ${duration(overSeconds)}`
}

const processColumns: readonly Column<ConsumerInstance>[] = [
  { title: 'consumer', text: ({ consumer }) => consumer, limit: 40 },
  { title: 'host', text: ({ host }) => host, limit: 30 },
  { title: 'process', text: ({ processId }) => String(processId), align: 'right' },
  { title: 'reads', text: ({ subscription }) => subscription ?? '', limit: 60 },
  { title: 'version', text: ({ version }) => version },
  { title: 'last seen', text: ({ seenAt }) => seconds(seenAt) },
]

/** The consumers whose tables are in this database; nothing where there are none. */
export function tellConsumers(
  output: Output,
  { consumers, destinations }: OutboxStatus,
  format: FormatCount,
): void {
  if (consumers !== null && consumers.length === 0) return
  if (Object.keys(destinations).length > 0) output.print()
  output.print(output.paint('bold', 'consumers'))
  if (consumers === null) {
    output.print('  not told: this role may not read their tables, docs/guides/roles.md has the grants')
    return
  }
  output.table(consumers, columns(format))
  const processes = consumers.flatMap(({ instances }) => instances)
  if (processes.length === 0) return
  output.print()
  output.table(processes, processColumns)
}
