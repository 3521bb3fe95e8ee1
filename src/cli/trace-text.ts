import { type Step, type Tone, questionsOf, stepsOf } from '../publications/timeline.ts'
import type { Trace } from '../publications/trace.ts'
import { printable } from '../wording.ts'
import type { Color, Output } from './output.ts'
import { cut } from './text.ts'

const width = 80
const indent = 13

const colors: Readonly<Partial<Record<Tone, Color>>> = { good: 'green', open: 'yellow', bad: 'red' }

/** A trace as a timeline that reads well in 80 columns. Facts first, then what follows from them. */
export function printTrace(output: Output, trace: Trace): void {
  const { aggregate, revision, verdict } = trace
  const line = (text = '') => output.print(text)
  line(
    output.paint(
      'bold',
      cut(
        `${printable(aggregate.type)} ${printable(aggregate.id)}, ${revision === null ? 'event without a revision' : `revision ${revision}`}`,
        width,
      ),
    ),
  )
  if (trace.notice !== null) for (const row of wrap(trace.notice, 0)) line(row.trimStart())
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
  if (verdict.symptom !== null)
    paragraph(output, 'symptom', `${verdict.symptom}: ${verdict.symptomText}`, 'red')
  paragraph(output, 'cause', `${verdict.cause}: ${verdict.causeText}`)
  if (verdict.owner !== null)
    field(
      output,
      'owner',
      verdict.team === null ? verdict.owner : `${verdict.owner} (${printable(verdict.team)})`,
    )
  paragraph(output, 'next', verdict.action)
  field(output, 'command', output.paint('cyan', printable(verdict.command)))
  // The five questions are about a revision.
  if (revision === null) return
  line()
  line(output.paint('bold', 'five questions'))
  for (const [question, answer] of questionsOf(trace.answers)) {
    for (const row of wrap(`${question}: ${answer ?? 'open'}`, 2)) line(row)
  }
}

function printStep(output: Output, { who, at, text, tone }: Step): void {
  const time = at === null ? '' : `${at.slice(0, 10)} ${at.slice(11, 23)}`
  const [first = '', ...rest] = wrap(printable(text), 0, width - 28)
  const color = colors[tone]
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

function paragraph(output: Output, name: string, text: string, color?: Color): void {
  const painted = (part: string) => (color === undefined ? part : output.paint(color, part))
  const [first = '', ...rest] = wrap(text, 0, width - indent)
  field(output, name, painted(first))
  for (const part of rest) output.print(`${''.padEnd(indent)}${painted(part)}`)
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
