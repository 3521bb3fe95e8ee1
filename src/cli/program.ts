import { Command, Option } from 'commander'
import type { Action, GlobalOptions } from './context.ts'
import type { ConsumerActionFlags, ConsumerListFlags } from './commands/consumer-dead.ts'
import type { ConsumerReleaseFlags } from './commands/consumer-release.ts'
import type { DecisionFlags } from './commands/intent-create.ts'
import type { RebuildFlags } from './commands/projection-rebuild.ts'
import type { ActionFlags, FilterFlags, ListFlags } from './flags.ts'

/** Runs an action with the options that every command takes. */
export type Act = (globals: GlobalOptions, action: Action) => Promise<void>

/**
 * The tree of commands; `docs/reference/commands.md` is tested against it. The commands themselves are loaded only
 * when they run, so that `waybill --version` is quick.
 */
export function createProgram(version: string, act: Act): Command {
  const program = new Command('waybill')
    .description(
      'A transactional outbox for PostgreSQL: nothing is lost, it arrives in order, and you can ask where it is.',
    )
    .version(version, '--version', 'shows the version')
    .option('--config <file>', 'the configuration file (default: waybill.config.* in this folder)')
    .option('--database-url <url>', 'the database, instead of databaseUrl of the configuration')
    .option('--schema <name>', 'the PostgreSQL schema, instead of schema of the configuration')
    .option('--json', 'prints JSON for machines; errors are JSON on stderr')
    .option('--no-color', 'prints without colour, as NO_COLOR and a pipe do')
    .option('--debug', 'shows stack traces of errors')
    .helpOption('--help', 'shows this help')
    .helpCommand(false)
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({ writeErr: () => undefined, outputError: () => undefined })
    .showSuggestionAfterError(false)
    .exitOverride()

  /** Gives a command its action; `load` answers it once the words are known. */
  // eslint-disable-next-line typescript/no-unnecessary-type-parameters -- each call names what its options are
  function does<Options>(
    command: Command,
    load: (options: Options, words: string[]) => Promise<Action>,
  ): Command {
    return command.action(async (...given: unknown[]) => {
      const self = given.at(-1) as Command
      const action = await load(self.opts<Options & object>(), self.args)
      await act(self.optsWithGlobals<GlobalOptions>(), action)
    })
  }

  const init = program
    .command('init')
    .description('writes a commented configuration and shows the next three steps')
    .addOption(
      new Option('--format <format>', 'yaml, or ts for a typed one').choices(['yaml', 'ts']).default('yaml'),
    )
  does<{ format: 'yaml' | 'ts' }>(init, async (options) => {
    const { initCommand } = await import('./commands/init.ts')
    return initCommand(options)
  })

  const migrate = program
    .command('migrate')
    .description('brings the schema to the version of this program; safe when started many times at once')
    .option('--print', 'prints the SQL for your own migration tool; needs no database')
    .option(
      '--to <version>',
      'the version to reach, lower than the present one to go back, 0 to remove everything',
    )
    .option('--dry-run', 'says what would be done and does nothing')
  does<{ print?: boolean; to?: string; dryRun?: boolean }>(migrate, async (options) => {
    const { migrateCommand } = await import('./commands/migrate.ts')
    return migrateCommand(options)
  })

  const relay = program
    .command('relay')
    .description('runs the relay until it is stopped')
    .option('--once', 'publishes what is due and ends')
    .option('--port <port>', 'port of the HTTP server, 0 for a free one, instead of admin.port')
  does<{ once?: boolean; port?: string }>(relay, async (options) => {
    const { relayCommand } = await import('./commands/relay.ts')
    return relayCommand(options)
  })

  const status = program
    .command('status')
    .description('shows how much waits, for how long, and which relays, destinations and consumers work')
  does(status, async () => {
    const { statusCommand } = await import('./commands/status.ts')
    return statusCommand()
  })

  const list = paged(
    program
      .command('list')
      .description('lists events in the order of their position')
      .option(
        '--state <state>',
        'only events in this state; may be given more than once, or several with commas',
        collect,
      )
      .option('--aggregate <type> <id>', 'only events of this aggregate')
      .option('--type <type>', 'only events of this type')
      .option('--newest', 'the newest events first'),
  )
  does<ListFlags & { state?: string[]; newest?: boolean }>(list, async (options) => {
    const { listCommand } = await import('./commands/list.ts')
    return listCommand(options)
  })

  const dead = program.command('dead').description('lists, retries or discards dead letters')
  const deadList = paged(filtered(dead.command('list').description('lists dead letters with their reasons')))
  does<ListFlags & FilterFlags>(deadList, async (options) => {
    const { deadListCommand } = await import('./commands/dead-list.ts')
    return deadListCommand(options)
  })
  const retry = filtered(
    dead
      .command('retry')
      .argument('[id...]', 'ids of events')
      .description('puts dead letters back to their old place; in chunks, can be stopped and started again'),
  )
    .option('--all', 'all dead letters')
    .option('--allow-older', 'also events that newer ones of their aggregate have overtaken')
    .option('--reason <text>', 'why; kept with the decision')
  does<ActionFlags & { allowOlder?: boolean }>(retry, async (options, ids) => {
    const { deadRetryCommand } = await import('./commands/dead-actions.ts')
    return deadRetryCommand(options, ids)
  })
  const discard = filtered(
    dead
      .command('discard')
      .argument('[id...]', 'ids of events')
      .description('gives dead letters up; the rows stay, and the reason with them'),
  )
    .option('--all', 'all dead letters')
    .requiredOption('--reason <text>', 'why; kept with the decision')
  does<ActionFlags & { reason: string }>(discard, async (options, ids) => {
    const { deadDiscardCommand } = await import('./commands/dead-actions.ts')
    return deadDiscardCommand(options, ids)
  })

  const trace = program
    .command('trace')
    .argument('<what...>', 'an aggregate type, an id and a revision, or the id of an event')
    .option('--scope <scope>', 'of several independent publications of one revision, this one')
    .description('shows where a publication is: the facts of every owner, and what follows from them')
  does<{ scope?: string }>(trace, async (options, words) => {
    const { traceCommand } = await import('./commands/trace.ts')
    return traceCommand(words, options)
  })

  const audit = program
    .command('audit')
    .option('--publication <name>', 'only this publication')
    .option('--reads', 'asks the public reads too, one request for each revision')
    .description('looks for every symptom in whole publications; exit code 1 when there is one')
  does<{ publication?: string; reads?: boolean }>(audit, async (options) => {
    const { auditCommand } = await import('./commands/audit.ts')
    return auditCommand(options)
  })

  const intent = program.command('intent').description('decides about intents')
  const intentCreate = decided(
    intent
      .command('create')
      .description('creates an intent that is missing, for a revision that the source holds; recorded'),
  )
    .option('--type <type>', 'the event type, instead of intent.eventType of the publication')
    .option('--payload <json>', 'the payload, instead of intent.payload of the publication')
  does<DecisionFlags & { type?: string; payload?: string }>(intentCreate, async (options, words) => {
    const { intentCreateCommand } = await import('./commands/intent-create.ts')
    return intentCreateCommand(words, options)
  })

  const replay = decided(
    program
      .command('replay')
      .description('repeats exactly one key: the same event, the same bytes; recorded'),
  ).option('--allow-older', 'also when readers see a newer revision already')
  does<DecisionFlags & { allowOlder?: boolean }>(replay, async (options, words) => {
    const { replayCommand } = await import('./commands/replay.ts')
    return replayCommand(words, options)
  })

  const projection = program.command('projection').description('looks after projections')
  const rebuild = projection
    .command('rebuild')
    .argument('<name>', 'the projection, as a publication of the configuration names it')
    .description('applies what the source has again, by the running consumer, while live events go on')
    .option('--aggregate <type> <id>', 'only this aggregate')
    .option('--consumer <name>', 'the consumer that applies it, where the configuration names several')
    .option('--reason <text>', 'why; kept with the decision')
  does<RebuildFlags>(rebuild, async (options, [name]) => {
    const { projectionRebuildCommand } = await import('./commands/projection-rebuild.ts')
    return projectionRebuildCommand(name!, options)
  })

  const decisions = program
    .command('decisions')
    .option('--aggregate <type> <id>', 'only decisions about this aggregate')
    .option('--limit <n>', 'most decisions, 1 to 1000', '50')
    .description('shows who decided what, when and why; the newest first')
  does<{ aggregate?: string; limit: string }>(decisions, async (options) => {
    const { decisionsCommand } = await import('./commands/decisions.ts')
    return decisionsCommand(options)
  })

  const consumer = program.command('consumer').description('looks after the consumers of this database')
  const consumerDead = consumer
    .command('dead')
    .description('lists, retries or discards the dead letters of consumers')
  const consumerDeadList = consumerDead
    .command('list')
    .description('lists them with their reasons')
    .option('--consumer <name>', 'only those of this consumer')
  does<ConsumerListFlags>(paged(consumerDeadList), async (options) => {
    const { consumerDeadListCommand } = await import('./commands/consumer-dead.ts')
    return consumerDeadListCommand(options)
  })
  const consumerDeadRetry = consumerDead
    .command('retry')
    .argument('[id...]', 'ids of events')
    .description('puts them back: a process of the consumer handles them within seconds')
    .requiredOption('--consumer <name>', 'the consumer')
    .option('--all', 'all dead letters of the consumer')
    .option('--allow-older', 'also events that later ones of their aggregate have overtaken')
    .option('--reason <text>', 'why; kept with the decision')
  does<ConsumerActionFlags>(consumerDeadRetry, async (options, ids) => {
    const { consumerDeadRetryCommand } = await import('./commands/consumer-dead.ts')
    return consumerDeadRetryCommand(options, ids)
  })
  const consumerDeadDiscard = consumerDead
    .command('discard')
    .argument('[id...]', 'ids of events')
    .description('gives them up: the messages are removed, the results stay')
    .requiredOption('--consumer <name>', 'the consumer')
    .option('--all', 'all dead letters of the consumer')
    .requiredOption('--reason <text>', 'why; kept with the decision')
  does<ConsumerActionFlags & { reason: string }>(consumerDeadDiscard, async (options, ids) => {
    const { consumerDeadDiscardCommand } = await import('./commands/consumer-dead.ts')
    return consumerDeadDiscardCommand(options, ids)
  })
  const consumerRelease = consumer
    .command('release')
    .argument('<aggregate-type>', 'the aggregate type')
    .argument('<id>', 'the id of the aggregate')
    .description('lets a projection go on without revisions that will never come; recorded')
    .requiredOption('--consumer <name>', 'the consumer that parked the events behind them')
    .option('--projection <name>', 'of several projections that wait, this one')
    .requiredOption('--reason <text>', 'why; kept with the decision')
  does<ConsumerReleaseFlags>(consumerRelease, async (options, words) => {
    const { consumerReleaseCommand } = await import('./commands/consumer-release.ts')
    return consumerReleaseCommand(words, options)
  })

  const prune = program
    .command('prune')
    .description('removes published events that are older than retention.processedDays')
    .option('--dry-run', 'counts them and removes nothing')
  does<{ dryRun?: boolean }>(prune, async (options) => {
    const { pruneCommand } = await import('./commands/prune.ts')
    return pruneCommand(options)
  })

  return program
}

function paged(command: Command): Command {
  return command
    .option('--limit <n>', 'most events of one page, 1 to 1000', '50')
    .option('--after <cursor>', 'where the page starts: the "next" of the page before')
}

function decided(command: Command): Command {
  return command
    .argument('<aggregate-type>', 'the aggregate type, which is the name of the publication')
    .argument('<id>', 'the id of the aggregate')
    .argument('<revision>', 'the revision')
    .option('--scope <scope>', 'of several independent publications of one revision, this one')
    .requiredOption('--reason <text>', 'why; kept with the decision')
}

function filtered(command: Command): Command {
  return command
    .option('--aggregate <type> <id>', 'only events of this aggregate')
    .option('--type <type>', 'only events of this type')
    .option('--error <text>', 'only those whose reason holds this text')
    .option('--before <time>', 'only those that died before this: 2026-03-01, or 2026-03-01T12:00:00Z')
}

function collect(value: string, before: string[] = []): string[] {
  return [...before, ...value.split(',').map((part) => part.trim())]
}
