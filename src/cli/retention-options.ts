import type { Configuration } from '../configuration/spec.ts'
import type { ArchiveTable } from '../operations/archive.ts'
import { given } from './flags.ts'

/** What the pruner is to know about retention. */
export function retentionOptions({ processedDays, archive }: Configuration['retention']): {
  processedDays: number
  archive?: ArchiveTable
} {
  if (archive === undefined) return { processedDays }
  const { table, schema } = archive
  return { processedDays, archive: { table, ...given({ schema }) } }
}
