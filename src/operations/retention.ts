import { number, object, string } from '../options.ts'

export const retentionSpec = object({
  processedDays: number({ min: 0, max: 36_500 })
    .default(7)
    .describe(
      'Days that a published event is kept after it was published. Dead letters and discarded events stay.',
    ),
  archive: object({
    schema: string({ maxLength: 63 })
      .optional()
      .describe('Its PostgreSQL schema. Left out: that of the outbox.'),
    table: string({ maxLength: 63 }).describe('Its name.'),
  })
    .optional()
    .describe('A table of your own in the same database that keeps what retention removes.'),
})
