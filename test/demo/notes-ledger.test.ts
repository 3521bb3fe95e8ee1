import { expect, it } from 'vitest'
import { createLedger } from '../../examples/notes/ledger.ts'

it('counts as delivered what was written, not what somebody decided by hand', () => {
  const ledger = createLedger()
  const saved = { revision: 1, answer: null }
  ledger.committed({ ...saved, id: 'a', eventId: 'e-1' })
  ledger.committed({ ...saved, id: 'b', eventId: 'e-2' })
  ledger.committed({ ...saved, id: 'forgotten', eventId: null })
  ledger.acknowledged({ eventId: 'e-1', aggregateId: 'a' })
  ledger.acknowledged({ eventId: 'by-hand', aggregateId: 'forgotten' })
  expect(ledger).toMatchObject({ written: 2, delivered: 1, duplicates: 0 })
  ledger.acknowledged({ eventId: 'e-2', aggregateId: 'b' })
  ledger.acknowledged({ eventId: 'e-2', aggregateId: 'b' })
  expect(ledger).toMatchObject({ written: 2, delivered: 2, duplicates: 1 })
})
