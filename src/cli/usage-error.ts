import type { Command, CommanderError } from 'commander'
import { WaybillError } from '../errors.ts'
import { closest, show } from '../wording.ts'

/** What commander has to say about a command line, in our words: one sentence with the nearest known word. */
export function usageError(error: CommanderError, program: Command, argv: readonly string[]): WaybillError {
  return new WaybillError('USAGE_INVALID', sentence(error, commandOf(program, argv)))
}

function sentence({ code, message }: CommanderError, command: Command): string {
  const [, word = ''] = /'([^]*?)'(?:$|\.|\n)/.exec(message) ?? []
  const help = `see "${[...pathOf(command), '--help'].join(' ')}"`
  switch (code) {
    case 'commander.unknownCommand':
      return suggest(
        'command',
        word,
        command.commands.map((c) => c.name()),
        help,
      )
    case 'commander.unknownOption':
      return `${suggest('option', word, optionNames(command), help)}${command.registeredArguments.length > 0 ? '; a word that begins with "-" goes after "--"' : ''}`
    case 'commander.help':
      return `${pathOf(command).join(' ')} needs a command: ${command.commands.map((c) => c.name()).join(', ')}; ${help}`
    case 'commander.excessArguments':
      return `${pathOf(command).join(' ')} takes ${command.registeredArguments.length === 0 ? 'no words' : 'fewer words than that'}${ownOptions(command)}; ${help}`
    default: {
      const [first = message] = message.replace(/^error: /, '').split('\n')
      return `${first.replaceAll("'", '"').replace(/\.$/, '')}, ${help}`
    }
  }
}

function suggest(what: string, word: string, known: readonly string[], help: string): string {
  const near = closest(word, known)
  return `unknown ${what} ${show(word)}, ${near === undefined ? help : `did you mean ${show(near)}?`}`
}

/** The deepest command that the words name. */
function commandOf(program: Command, argv: readonly string[]): Command {
  let command = program
  for (const word of argv) {
    if (word.startsWith('-')) continue
    const next = command.commands.find((c) => c.name() === word || c.aliases().includes(word))
    if (next !== undefined) command = next
  }
  return command
}

function pathOf(command: Command): string[] {
  return command.parent === null ? [command.name()] : [...pathOf(command.parent), command.name()]
}

function ownOptions({ options }: Command): string {
  return options.length === 0 ? '' : `, only options: ${options.map(({ flags }) => flags).join(', ')}`
}

function optionNames(command: Command): string[] {
  const own = command.options.flatMap(({ long }) => (long == null ? [] : [long]))
  return command.parent === null ? [...own, '--help'] : [...own, ...optionNames(command.parent)]
}
