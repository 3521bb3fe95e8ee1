import { Client, Pool } from 'pg'

/** Makes a database with these tables; answers its URL. */
export async function createDatabase(serverUrl: string, name: string, tables: string): Promise<string> {
  const url = new URL(serverUrl)
  await execute(serverUrl, `CREATE DATABASE ${name}`)
  url.pathname = `/${name}`
  await execute(url.href, tables)
  return url.href
}

async function execute(url: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}

export function openPool(url: string): Pool {
  const pool = new Pool({ connectionString: url, max: 12 })
  // An idle connection that breaks is replaced by the next query.
  pool.on('error', () => undefined)
  return pool
}
