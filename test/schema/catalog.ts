import type pg from 'pg'

/** Everything that a schema holds, as text: two schemas with the same lines are made alike. */
export async function describeCatalog(client: pg.Client, schema: string): Promise<string[]> {
  const lines = async (sql: string) =>
    (await client.query<{ line: string }>(sql, [schema])).rows.map(({ line }) => line)
  return [
    ...(await lines(`
      SELECT format('column %s.%s %s %s default %s identity %s generated %s', c.relname, a.attname,
                    format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'not null' END,
                    pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attgenerated) AS line
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
      LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
      WHERE c.relnamespace = to_regnamespace(quote_ident($1)) AND a.attnum > 0 AND NOT a.attisdropped
      ORDER BY c.relname, a.attnum`)),
    ...(await lines(`
      SELECT format('%s %s options %s comment %s', c.relkind, c.relname, c.reloptions::text,
                    obj_description(c.oid, 'pg_class')) AS line
      FROM pg_class c WHERE c.relnamespace = to_regnamespace(quote_ident($1)) ORDER BY c.relname`)),
    ...(await lines(`
      SELECT format('constraint %s %s', conname, pg_get_constraintdef(oid)) AS line
      FROM pg_constraint WHERE connamespace = to_regnamespace(quote_ident($1)) AND contype <> 'n' ORDER BY conname`)),
    ...(await lines(`SELECT indexdef AS line FROM pg_indexes WHERE schemaname = $1 ORDER BY indexname`)),
    ...(await lines(`SELECT definition AS line FROM pg_views WHERE schemaname = $1 ORDER BY viewname`)),
    ...(await lines(`
      SELECT pg_get_functiondef(oid) AS line FROM pg_proc
      WHERE pronamespace = to_regnamespace(quote_ident($1)) ORDER BY proname`)),
    ...(await lines(`
      SELECT format('%s enabled %s', pg_get_triggerdef(t.oid), t.tgenabled) AS line
      FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
      WHERE c.relnamespace = to_regnamespace(quote_ident($1)) ORDER BY t.tgname`)),
  ]
}
