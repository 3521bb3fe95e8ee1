import { type Spec, either, integer, list, object, oneOf, record, string, url } from '../options.ts'

/** A name of a table or column; it becomes SQL through the quoting function only. */
const identifier = () => string({ maxLength: 63 })

const place = {
  name: string({ maxLength: 100 }).describe('Its name.'),
  databaseUrl: url({ protocols: ['postgres', 'postgresql'] })
    .optional()
    .describe('The database in which it keeps what it knows. Left out: that of the outbox.'),
  schema: string({ maxLength: 63 })
    .optional()
    .describe('The schema of Waybill there. Left out: that of the outbox.'),
}
const nameOrPlace = <Place extends Spec>(described: Place) =>
  either([string({ maxLength: 100 }), described] as const, (value) => (typeof value === 'string' ? 0 : 1))

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
  projections: list(
    nameOrPlace(
      object({
        ...place,
        table: string({ maxLength: 200 })
          .optional()
          .describe('Its own table, to see rows that are there twice or not at all.'),
        id: identifier()
          .optional()
          .describe('The column of that table with the id of the aggregate; `id` if left out.'),
      }),
    ),
  )
    .default([])
    .describe('Projections that show this publication: names, or objects for those in another database.'),
  consumers: list(nameOrPlace(object(place)))
    .default([])
    .describe('Consumers that apply it: names, or objects for those in another database.'),
  reads: list(
    object({
      name: string().describe('What people call it.'),
      url: string({
        expected: 'an http or https URL; {id} stands for the id of the aggregate',
        accepts: (text) => /^https?:\/\/[^\s]+$/.test(text),
      }).describe(
        'What is read; `{id}` stands for the id of the aggregate, `{revision}` for the revision, both encoded for a URL.',
      ),
      revision: string({
        pattern: /^(?:body|header)\../,
        expected: '"body." with a path, or "header." with a name',
      })
        .default('body.revision')
        .describe('Where the answer tells its revision: `body.<path>` or `header.<name>`.'),
      timeoutMs: integer({ min: 10, max: 60_000 }).default(3_000).describe('Limit for one read.'),
    }),
  )
    .default([])
    .describe('Public reads that are asked what they show.'),
})
