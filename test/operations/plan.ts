import type { TestDatabase } from '../support/postgres.ts'

/** A node of a plan. */
export interface PlanNode {
  node: string
  relation: string | undefined
  index: string | undefined
  condition: string | undefined
}

/** Every node of a plan, flat. */
export async function planOf(
  database: TestDatabase,
  sql: string,
  values: readonly unknown[],
): Promise<PlanNode[]> {
  return (await explain(database, 'EXPLAIN (FORMAT JSON)', sql, values)).map(describe)
}

/** What a statement did: it is run, and taken back. */
export interface Work {
  nodes: PlanNode[]
  /** Rows that its nodes gave or threw away, all together: what it cost, on any machine. */
  rows: number
}

export async function workOf(database: TestDatabase, sql: string, values: readonly unknown[]): Promise<Work> {
  await database.query('BEGIN')
  try {
    const nodes = await explain(database, 'EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON)', sql, values)
    const removed = (node: Explained) =>
      (node['Rows Removed by Filter'] ?? 0) +
      (node['Rows Removed by Join Filter'] ?? 0) +
      (node['Rows Removed by Index Recheck'] ?? 0)
    const rows = nodes.reduce(
      (sum, node) => sum + ((node['Actual Rows'] ?? 0) + removed(node)) * (node['Actual Loops'] ?? 0),
      0,
    )
    return { nodes: nodes.map(describe), rows: Math.round(rows) }
  } finally {
    await database.query('ROLLBACK')
  }
}

/** The scans of the whole events table in a plan. */
export function fullScans(nodes: readonly PlanNode[]): PlanNode[] {
  return nodes.filter(({ node, relation }) => /Seq Scan/.test(node) && relation === 'outbox_events')
}

interface Explained {
  'Node Type': string
  'Relation Name'?: string
  'Index Name'?: string
  'Index Cond'?: string
  'Actual Rows'?: number
  'Actual Loops'?: number
  'Rows Removed by Filter'?: number
  'Rows Removed by Join Filter'?: number
  'Rows Removed by Index Recheck'?: number
  Plans?: Explained[]
}

async function explain(
  database: TestDatabase,
  command: string,
  sql: string,
  values: readonly unknown[],
): Promise<Explained[]> {
  const rows = await database.rows<{ 'QUERY PLAN': [{ Plan: Explained }] }>(`${command} ${sql}`, [...values])
  const flatten = (plan: Explained): Explained[] => [plan, ...(plan.Plans ?? []).flatMap(flatten)]
  return flatten(rows[0]!['QUERY PLAN'][0].Plan)
}

function describe(node: Explained): PlanNode {
  return {
    node: node['Node Type'],
    relation: node['Relation Name'],
    index: node['Index Name'],
    condition: node['Index Cond'],
  }
}
