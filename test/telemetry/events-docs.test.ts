import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { logLines, telemetryEventNames } from '../../src/telemetry/log-lines.ts'

it('has every event in docs/reference/events.md, with its level, and no other', () => {
  const text = readFileSync(new URL('../../docs/reference/events.md', import.meta.url), 'utf8')
  const documented = [...text.matchAll(/^\| `([a-z_]+\.[a-z_]+)` +\| (\w+)/gm)]
  expect(documented.map(([, name]) => name).toSorted()).toEqual([...telemetryEventNames].toSorted())
  for (const [, name, level] of documented) {
    const actual = logLines[name as keyof typeof logLines].level
    if (typeof actual === 'string') expect(`${name} ${level}`).toBe(`${name} ${actual}`)
  }
})
