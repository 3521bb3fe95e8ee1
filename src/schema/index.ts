export type { MigrateOptions, MigrateReport } from './migrator.ts'
export { migrate, printMigrations } from './migrator.ts'
export type { SchemaShape } from './migrations.ts'
export { latestVersion } from './migrations.ts'
