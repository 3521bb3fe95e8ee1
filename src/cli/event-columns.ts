import type { EventState } from '../types.ts'
import type { WithConsumers } from '../operations/consumers.ts'
import type { EventItem } from '../operations/event-item.ts'
import type { Color, Column } from './output.ts'

const colors: Readonly<Record<EventState, Color | undefined>> = {
  pending: 'cyan',
  retrying: 'yellow',
  blocked: 'yellow',
  dead: 'red',
  discarded: 'gray',
  published: 'green',
}

/** The columns that tell which event it is. */
export const eventColumns: readonly Column<EventItem>[] = [
  { title: 'position', text: ({ position }) => position, align: 'right' },
  { title: 'id', text: ({ id }) => id },
  { title: 'state', text: ({ state }) => state, color: ({ state }) => colors[state] },
  {
    title: 'aggregate',
    text: ({ aggregateType, aggregateId }) => `${aggregateType} ${aggregateId}`,
    limit: 40,
  },
  { title: 'type', text: ({ eventType }) => eventType, limit: 30 },
  { title: 'attempts', text: ({ attempts }) => String(attempts), align: 'right' },
  { title: 'created', text: ({ createdAt }) => seconds(createdAt) },
]

/** What the consumers of the same database made of it. */
export const consumersColumn: Column<WithConsumers> = {
  title: 'consumers',
  text: ({ consumers }) =>
    (consumers ?? []).map(({ consumer, result }) => `${consumer} ${result}`).join(', '),
  limit: 80,
}

/** Why it failed, at the end of the line. */
export const errorColumn: Column<EventItem> = {
  title: 'last error',
  text: ({ lastError }) => lastError ?? '',
  limit: 80,
}

/** To the second: enough for people. */
export function seconds(time: string | null): string {
  return time === null ? '' : `${time.slice(0, 19)}Z`
}
