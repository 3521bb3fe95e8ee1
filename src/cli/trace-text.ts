import type { Named } from '../publications/collect.ts'
import type { ConsumerFact, ProjectionFact } from '../publications/facts/consumer.ts'
import type { Fact } from '../publications/facts/fact.ts'
import type { ReadFact } from '../publications/facts/read.ts'
import type { Trace } from '../publications/trace.ts'
import type { Color, Output } from './output.ts'
import { cut, printable } from './text.ts'

const width = 80
const indent = 13

interface Step {
  /** Which owner, or which of several. */
  readonly who: string
  /** UTC; null: at no known moment. */
  readonly at: string | null
  readonly text: string
  readonly color?: Color
}

/** A trace as a timeline that reads well in 80 columns. Facts first, then what follows from them. */
export function printTrace(output: Output, trace: Trace): void {
  const { aggregate, revision, verdict } = trace
  const line = (text = '') => output.print(text)
  line(
    output.paint(
      'bold',
      cut(`${printable(aggregate.type)} ${printable(aggregate.id)}, revision ${revision}`, width),
    ),
  )
  line()
  line(output.paint('bold', 'facts'))
  for (const step of stepsOf(trace)) printStep(output, step)
  if (trace.gaps.length > 0) {
    line()
    line(output.paint('bold', 'gaps'))
    for (const { name, reason } of trace.gaps) for (const row of wrap(`${name}: ${reason}`, 2)) line(row)
  }
  line()
  line(output.paint('bold', 'conclusion'))
  const color: Color =
    verdict.symptom !== null ? 'red' : verdict.state === 'projection-current' ? 'green' : 'yellow'
  field(output, 'state', output.paint(color, verdict.state))
  if (verdict.symptomText !== null) field(output, 'symptom', output.paint('red', verdict.symptomText))
  paragraph(output, 'cause', verdict.causeText)
  if (verdict.owner !== null)
    field(
      output,
      'owner',
      verdict.team === null ? verdict.owner : `${verdict.owner} (${printable(verdict.team)})`,
    )
  paragraph(output, 'next', verdict.action)
  field(output, 'command', output.paint('cyan', printable(verdict.command)))
  line()
  line(output.paint('bold', 'five questions'))
  const { answers } = trace
  for (const [question, answer] of [
    ['where is the canonical revision', answers.canonicalRevision],
    ['where is the intent', answers.intent],
    ['which key repeats it', answers.repeatKey],
    ['which revision is confirmed', answers.confirmedRevision],
    ['what does a public read show', answers.publicRead],
  ] as const) {
    for (const row of wrap(`${question}: ${answer ?? 'open'}`, 2)) line(row)
  }
}

function stepsOf({ facts, revision }: Trace): readonly Step[] {
  const steps: Step[] = [
    ofFact('source', facts.source, (source) => ({
      at: null,
      text: source.holdsRevision
        ? `holds revision ${revision}${source.newestRevision === revision ? '' : `; its newest is ${source.newestRevision}`}`
        : source.newestRevision === null
          ? 'has no row of this aggregate'
          : `its newest revision is ${source.newestRevision}`,
      color: source.holdsRevision ? 'green' : 'yellow',
    })),
    ofFact('intent', facts.intent, ({ row, headRevision }) =>
      row === null
        ? {
            at: null,
            text: `there is none${headRevision === null ? '' : `; the newest intended is ${headRevision}`}`,
            color: 'yellow',
          }
        : { at: row.createdAt, text: `${row.state}, event ${row.eventId}` },
    ),
  ]
  const add = <T>(who: string, fact: Fact<T>, tell: (value: T) => Omit<Step, 'who'> | null) => {
    const step = ofFact(who, fact, (value) => tell(value) ?? { at: null, text: '' })
    if (step.text !== '') steps.push(step)
  }
  add('commit', facts.commit, (commit) =>
    commit === null
      ? null
      : { at: commit.at, text: commit.exact ? 'committed' : 'transaction began (commit times are not kept)' },
  )
  add('write API', facts.answer, (answer) =>
    answer === null ? null : { at: answer.answeredAt, text: 'answered "accepted"' },
  )
  add('relay', facts.bucket, ({ readAt, isOwned, bucket }) => ({
    at: readAt,
    text: `${readAt === null ? 'never read' : 'last read'} bucket ${bucket}${isOwned ? '' : ', which nobody owns now'}`,
    ...(isOwned ? {} : { color: 'yellow' as const }),
  }))
  add('relay', facts.intent, ({ row }) =>
    row === null || (row.attempts === 0 && row.lastError === null)
      ? null
      : {
          at: row.lastAttemptAt,
          text: `${row.attempts} counted ${row.attempts === 1 ? 'attempt' : 'attempts'}${row.lastError === null ? '' : `, last: ${row.lastError}`}`,
          color: 'yellow',
        },
  )
  add('relay', facts.intent, ({ row }) =>
    row?.processedAt == null
      ? null
      : { at: row.processedAt, text: `handed over${row.receipt === null ? '' : `, receipt ${row.receipt}`}` },
  )
  for (const one of facts.consumers) steps.push(consumerStep(one))
  for (const one of facts.projections) steps.push(projectionStep(one, revision))
  for (const one of facts.reads) steps.push(readStep(one, revision))
  add('replays', facts.replays, (replays) => {
    const last = replays.at(-1)
    return last === undefined
      ? null
      : { at: last.requestedAt, text: `number ${last.number} by ${last.requestedBy}: ${last.state}` }
  })
  add('decisions', facts.decisions, (decisions) => {
    const last = decisions.at(-1)
    return last === undefined
      ? null
      : { at: last.decidedAt, text: `${last.action} by ${last.decidedBy}: ${last.reason}` }
  })
  return steps
}

function consumerStep({ name, fact }: Named<ConsumerFact>): Step {
  return ofFact(`consumer ${name}`, fact, ({ result, processedAt, error, applied }) => ({
    at: processedAt,
    text: `${result ?? 'nothing recorded'}${applied > 1 ? ` ${applied} times` : ''}${error === null ? '' : `: ${error}`}`,
    ...(result === 'rejected' || result === 'parked' || applied > 1 ? { color: 'red' as const } : {}),
  }))
}

function projectionStep({ name, fact }: Named<ProjectionFact>, revision: string): Step {
  return ofFact(`projection ${name}`, fact, ({ revision: shown, appliedAt, rows }) => ({
    at: appliedAt,
    text: `${shown === null ? 'does not know it' : `revision ${shown}`}${rows === null || rows === 1 ? '' : `, ${rows} rows in its table`}`,
    color: shown !== null && BigInt(shown) >= BigInt(revision) && (rows ?? 1) === 1 ? 'green' : 'yellow',
  }))
}

function readStep({ name, fact }: Named<ReadFact>, revision: string): Step {
  return ofFact(`read ${name}`, fact, ({ httpStatus, revision: shown, noRevision, headers, answeredAt }) => {
    const cache = Object.entries(headers).map(([header, value]) => `${header}: ${value}`)
    return {
      at: answeredAt,
      text: [`HTTP ${httpStatus}`, shown === null ? noRevision : `revision ${shown}`, ...cache].join(', '),
      color: shown !== null && BigInt(shown) >= BigInt(revision) ? 'green' : 'yellow',
    }
  })
}

function ofFact<T>(who: string, fact: Fact<T>, tell: (value: T) => Omit<Step, 'who'>): Step {
  if (fact.status === 'known') return { who, ...tell(fact.value) }
  if (fact.status === 'not-configured') return { who, at: null, text: '', color: 'gray' }
  return { who, at: null, text: `unknown: ${fact.reason}`, color: 'yellow' }
}

function printStep(output: Output, { who, at, text, color }: Step): void {
  if (text === '') return
  const time = at === null ? '' : `${at.slice(0, 10)} ${at.slice(11, 23)}`
  const [first = '', ...rest] = wrap(printable(text), 0, width - 28)
  const painted = (part: string) => (color === undefined ? part : output.paint(color, part))
  const mark = who.length > 24 ? [who] : []
  if (mark.length > 0) output.print(`  ${cut(printable(who), width - 2)}`)
  output.print(`  ${(mark.length > 0 ? '' : printable(who)).padEnd(26)}${painted(first)}`)
  for (const part of rest) output.print(`  ${''.padEnd(26)}${painted(part)}`)
  if (time !== '') output.print(`  ${''.padEnd(26)}${output.paint('gray', time)}`)
}

function field(output: Output, name: string, text: string): void {
  output.print(`  ${name.padEnd(indent - 2)}${text}`)
}

function paragraph(output: Output, name: string, text: string): void {
  const [first = '', ...rest] = wrap(text, 0, width - indent)
  field(output, name, first)
  for (const part of rest) output.print(`${''.padEnd(indent)}${part}`)
}

/** Broken between words; a word that is too long is broken too. */
function wrap(text: string, left: number, columns = width - left): string[] {
  const rows: string[] = []
  let row = ''
  for (let word of printable(text).split(' ')) {
    while (word.length > columns) {
      if (row !== '') rows.push(row)
      rows.push(word.slice(0, columns))
      word = word.slice(columns)
      row = ''
    }
    if (row !== '' && row.length + 1 + word.length > columns) {
      rows.push(row)
      row = ''
    }
    row = row === '' ? word : `${row} ${word}`
  }
  if (row !== '') rows.push(row)
  return rows.map((part, i) => `${' '.repeat(i === 0 ? left : left + 2)}${part}`)
}
