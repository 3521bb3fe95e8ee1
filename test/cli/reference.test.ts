import type { Command } from 'commander'
import { describe, expect, test } from 'vitest'
import { createProgram } from '../../src/cli/program.ts'
import { page, table, tablesOf, updateTables } from '../configuration/reference.ts'

function everyCommand(command: Command, path = command.name()): [string, Command][] {
  return [
    [path, command],
    ...command.commands.flatMap((child) => everyCommand(child, `${path} ${child.name()}`)),
  ]
}

const commands = new Map(everyCommand(createProgram('0.0.0', async () => undefined)))

function optionsOf(command: Command): string {
  const words = command.registeredArguments.map((argument) => {
    const name = `${argument.name()}${argument.variadic ? '...' : ''}`
    return [`\`${argument.required ? `<${name}>` : `[${name}]`}\``, '', argument.description]
  })
  const options = command.options.map(({ flags, description, mandatory, defaultValue, long, argChoices }) => {
    const shown = long === '--no-color' ? undefined : (defaultValue as string | undefined)
    const choices = argChoices === undefined ? '' : `: ${argChoices.join(' or ')}`
    return [
      `\`${flags}\`${choices}`,
      mandatory ? 'required' : shown === undefined ? '' : `\`${shown}\``,
      description,
    ]
  })
  return table(['Option', 'Default', 'Meaning'], [...words, ...options])
}

describe('docs/reference/commands.md', () => {
  const runnable = [...commands].filter(([, { commands: children }]) => children.length === 0)
  const expected = new Map(
    [...commands].flatMap(([path, command]) =>
      command.options.length > 0 ? [[path, optionsOf(command)]] : [],
    ),
  )
  updateTables('commands.md', expected)

  test('has a heading for every command, and no other', () => {
    const headings = [...page('commands.md').matchAll(/^## `(waybill .+)`$/gm)].map(([, path]) => path)
    expect(headings.sort()).toEqual(runnable.map(([path]) => path).sort())
  })

  test('has a table for every command with options, and no other', () => {
    expect([...tablesOf('commands.md').keys()].sort()).toEqual([...expected.keys()].sort())
  })

  test.each([...expected.keys()])('describes the options of %s as the program does', (path) => {
    expect(tablesOf('commands.md').get(path)).toBe(expected.get(path))
  })
})
