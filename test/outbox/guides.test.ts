import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { isReservedHeader } from '../../src/publishing/headers.ts'
import { readHeaders } from '../../src/outbox/headers.ts'
import { codeOf, compile } from '../support/compile.ts'
import { projectFolder } from '../support/processes.ts'

test('every TypeScript example compiles, and one with a mistake does not', () => {
  const examples = ['writing-events.md', 'migrations.md'].flatMap((name) => codeOf(`guides/${name}`, 'ts'))
  expect(examples.length).toBeGreaterThan(5)
  const wrong = examples[0]!.replace("type: 'order.created'", 'type: 5')
  const problems = compile([...examples, wrong])
  expect(problems).toEqual([
    expect.stringMatching(new RegExp(`^example-${examples.length}\\.ts: No overload matches`)),
  ])
}, 60_000)

test('the guide lists every reserved header', () => {
  const guide = readFileSync(`${projectFolder}docs/guides/writing-events.md`, 'utf8')
  const [, list] = /These names are taken, in upper or lower case: (.*?)\n/s.exec(guide)!
  const names = [...list!.matchAll(/`([\w-]+)(…?)`/g)].map(([, name, more]) =>
    more === '' ? name! : `${name}x`,
  )
  expect(names.length).toBeGreaterThan(20)
  for (const name of names)
    expect(() => readHeaders({ [name]: 'x' }, 'headers')).toThrow(/is a reserved header/)
  const source = readFileSync(`${projectFolder}src/publishing/headers.ts`, 'utf8')
  const known = [...source.matchAll(/'([a-z-]+)'/g)].map(([, name]) => name!)
  for (const name of known.filter((name) => isReservedHeader(name))) expect(list).toContain(`\`${name}`)
})
