import { expect, it } from 'vitest'
import { startNode } from '../support/processes.ts'
import { blocksOf, readPage } from './markdown.ts'

it('the example of a saga ends as its page says, the compensation included', async () => {
  const run = startNode('examples/saga/main.ts')
  expect(await run.exit, run.stderr).toEqual({ code: 0, signal: null })
  const [printed] = blocksOf(readPage('examples/saga/README.md')).filter(({ language }) => language === '')
  expect(run.stdout).toBe(printed!.code)
  expect(run.stderr).toBe('')
})
