import { expect, test } from 'vitest'
import { codeOf, compile } from '../support/compile.ts'

test('every example of the page about embedding compiles, and one with a mistake does not', () => {
  const examples = codeOf('guides/embedding.md', 'ts')
  expect(examples.length).toBeGreaterThan(3)
  const wrong = examples[0]!.replace('batchSize: 100', 'batchSize: "100"')
  expect(compile([...examples, wrong])).toEqual([
    expect.stringMatching(new RegExp(`^example-${examples.length}\\.ts: Type 'string'`)),
  ])
}, 60_000)
