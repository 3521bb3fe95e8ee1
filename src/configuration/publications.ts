import { integer, list, object, oneOf, record, string } from '../options.ts'

/** A name of a table or column; it becomes SQL through the quoting function only. */
const identifier = () => string({ maxLength: 63 })

/** One publication: where its canonical revision stands, and who owns which step on the way to a reader. */
export const publicationSpec = object({
  source: object({
    table: string({ maxLength: 200 }).describe(
      'The table that holds the canonical revision, `schema.table` if need be.',
    ),
    id: identifier().default('id').describe('Its column with the id of the aggregate.'),
    revision: identifier().default('revision').describe('Its column with the revision.'),
    keeps: oneOf('latest', 'history')
      .default('latest')
      .describe(
        '`latest`: one row for each aggregate, so that only the newest revision can be judged missing; `history`: a row for each revision.',
      ),
  }).describe('Where the canonical revision is saved.'),
  intent: object({
    eventType: string({ maxLength: 255 }).describe('The type of the event that publishes a revision.'),
    payload: string()
      .optional()
      .describe('SQL expression over the source row, for an intent that is created by decision.'),
  })
    .optional()
    .describe('How a missing intent would be written.'),
  pendingLimitSeconds: integer({ min: 1, max: 31_536_000 })
    .default(30)
    .describe('How long an intent may be pending before it is a symptom.'),
  owners: record(string()).default({}).describe('The team behind each role, for example `relay` or `read`.'),
  projections: list(string({ maxLength: 100 }))
    .default([])
    .describe('Projections that show this publication.'),
  consumers: list(string({ maxLength: 100 }))
    .default([])
    .describe('Consumers that apply it.'),
  reads: list(
    object({
      name: string().describe('What people call it.'),
      url: string({
        expected: 'an http or https URL; {id} stands for the id of the aggregate',
        accepts: (text) => /^https?:\/\/[^\s]+$/.test(text),
      }).describe('What is read; `{id}` stands for the id of the aggregate.'),
      revision: string()
        .default('body.revision')
        .describe('Where the answer tells its revision: `body.<path>` or `header.<name>`.'),
    }),
  )
    .default([])
    .describe('Public reads that are asked what they show.'),
})
