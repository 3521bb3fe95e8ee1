import {
  type Flat,
  type ObjectInput,
  type ObjectOutput,
  type Fields,
  type OptionsInput,
  type OptionsOf,
  type Reading,
  type Spec,
  createSpec,
  invalid,
  required,
} from './spec.ts'
import { closest, hide, joinPath, looksSecret, show } from './wording.ts'

/**
 * Options of every part, described once: what a user may write, in which range, with which default and what it
 * is for. The same description checks the values, gives TypeScript the types, and is compared with the
 * documentation.
 *
 *     const spec = object({ batchSize: integer({ min: 1, max: 10_000 }).default(200).describe('most messages …') })
 *     type Options = OptionsOf<typeof spec>          // { readonly batchSize: number }
 *     type Written = OptionsInput<typeof spec>       // { readonly batchSize?: number }
 *     const options = resolveOptions(spec, { batchSize: 50 }, { path: 'relay' })
 */
export { configurationInvalid, resolveOptions } from './spec.ts'
export type { Fields, OptionsInput, OptionsOf, OptionSource, Spec } from './spec.ts'

/** A spec for one value: `parse` answers it, or `invalid`. */
function value<T>(
  type: 'string' | 'number' | 'boolean' | 'other',
  expected: string,
  parse: (value: unknown, isText: boolean) => T | typeof invalid,
  { secret = false, got = secret ? hide : show }: { secret?: boolean; got?: (value: unknown) => string } = {},
): Spec<T, T, 'required'> {
  return createSpec<T, T, 'required'>(
    {
      expected,
      secret,
      shape: { kind: 'value', type },
      read(value, path, reading) {
        const source = reading.sources.get(path)
        const result = parse(value, source !== undefined)
        if (result === invalid) {
          const shown = source?.hidden === true ? hide(value) : got(value)
          const from = source === undefined || source.name === '' ? '' : ` from ${source.name}`
          reading.problems.push(`expected ${nameOf(path)} to be ${expected}, got ${shown}${from}`)
        }
        return result
      },
    },
    required,
  )
}

export interface StringRules {
  /** Default: 1; an empty text is mostly a forgotten one. */
  minLength?: number
  maxLength?: number
  pattern?: RegExp
  /** Further check of a text that fits the rest. */
  accepts?: (text: string) => boolean
  /** Replaces the description of the rules in messages: `an exchange name of at most 255 bytes`. */
  expected?: string
  /** Never printed. Default: false. */
  secret?: boolean
}

export function string(rules: StringRules = {}): Spec<string, string, 'required'> {
  const { minLength = 1, maxLength = Infinity, pattern, accepts } = rules
  const length =
    maxLength < Infinity
      ? `of ${minLength} to ${maxLength} characters`
      : minLength > 1
        ? `of at least ${minLength} characters`
        : ''
  const expected =
    rules.expected ?? ['text', length, pattern ? `that matches ${pattern}` : ''].filter(Boolean).join(' ')
  const fits = (text: string) =>
    text.length >= minLength &&
    text.length <= maxLength &&
    (pattern?.test(text) ?? true) &&
    (accepts?.(text) ?? true)
  return value('string', expected, (v) => (typeof v === 'string' && fits(v) ? v : invalid), {
    secret: rules.secret ?? false,
  })
}

/** A URL, kept as it was written. A malformed one is never printed: it may hold a password. */
export function url(rules: {
  protocols: readonly string[]
  accepts?: (url: URL) => boolean
  expected?: string
}): Spec<string, string, 'required'> {
  const starts = rules.protocols.map((protocol) => `${protocol}://`)
  const expected = rules.expected ?? `a URL that starts with ${starts.join(' or ')}`
  const parse = (v: unknown) => {
    const parsed = typeof v === 'string' && URL.canParse(v) ? new URL(v) : null
    return parsed !== null &&
      starts.some((s) => (v as string).toLowerCase().startsWith(s)) &&
      (rules.accepts?.(parsed) ?? true)
      ? (v as string)
      : invalid
  }
  return value('string', expected, parse, {
    secret: true,
    got: (v) =>
      typeof v === 'string' && !URL.canParse(v) && v.includes('@')
        ? `${hide(v)} (write @, / and # in a user name or password as %40, %2F and %23)`
        : hide(v),
  })
}

export interface NumberRules {
  min: number
  max: number
}

/** A whole number within bounds; both are part of the documentation. */
export function integer({ min, max }: NumberRules): Spec<number, number, 'required'> {
  return value('number', `an integer from ${min} to ${max}`, (v, isText) => {
    const n = isText && typeof v === 'string' && /^[+-]?\d+$/.test(v) ? Number(v) : v
    return Number.isSafeInteger(n) && (n as number) >= min && (n as number) <= max ? (n as number) : invalid
  })
}

export function number({ min, max }: NumberRules): Spec<number, number, 'required'> {
  return value('number', `a number from ${min} to ${max}`, (v, isText) => {
    const n = isText && typeof v === 'string' && /^[+-]?(\d+\.?\d*|\.\d+)$/.test(v) ? Number(v) : v
    return typeof n === 'number' && n >= min && n <= max ? n : invalid
  })
}

export function boolean(): Spec<boolean, boolean, 'required'> {
  const words = new Map<unknown, boolean>([
    ['true', true],
    ['1', true],
    ['false', false],
    ['0', false],
  ])
  return value('boolean', 'true or false', (v, isText) => {
    const b = isText ? (words.get(v) ?? v) : v
    return typeof b === 'boolean' ? b : invalid
  })
}

export function oneOf<const T extends string>(...words: readonly T[]): Spec<T, T, 'required'> {
  const quoted = words.map((word) => JSON.stringify(word))
  const expected =
    quoted.length < 2 ? quoted.join('') : `${quoted.slice(0, -1).join(', ')} or ${quoted.at(-1)}`
  return value('string', expected, (v) => (words.includes(v as T) ? (v as T) : invalid), {
    got: (v) => {
      const near = typeof v === 'string' ? closest(v, words) : undefined
      return near === undefined ? show(v) : `${show(v)} (did you mean ${JSON.stringify(near)}?)`
    },
  })
}

/** A value that only code can give: a function, a ready publisher, a database handle. */
export function instance<T>(expected: string, accepts: (value: unknown) => boolean): Spec<T, T, 'required'> {
  return value('other', expected, (v) => (accepts(v) ? (v as T) : invalid))
}

export function list<O, I>(
  of: Spec<O, I>,
  { min = 0, max = 10_000 }: { min?: number; max?: number } = {},
): Spec<readonly O[], readonly I[], 'required'> {
  const expected = min > 0 ? `a list of at least ${min}` : 'a list'
  return createSpec<readonly O[], readonly I[], 'required'>(
    {
      expected,
      shape: { kind: 'list', of },
      read(value, path, reading) {
        if (!Array.isArray(value) || value.length < min || value.length > max)
          return refuse(expected, value, path, reading)
        return allOf(value.map((item: unknown, index) => of.read(item, `${path}[${index}]`, reading)))
      },
    },
    required,
  )
}

/** An object whose keys the user chooses. */
export function record<O, I>(
  of: Spec<O, I>,
  {
    key = {
      expected: 'a name of 1 to 255 characters',
      accepts: (k: string) => k.length > 0 && k.length <= 255,
    },
  } = {},
): Spec<Readonly<Record<string, O>>, Readonly<Record<string, I>>, 'required'> {
  return createSpec<Readonly<Record<string, O>>, Readonly<Record<string, I>>, 'required'>(
    {
      expected: 'an object',
      shape: { kind: 'record', of },
      read(value, path, reading) {
        if (!isPlainObject(value)) return refuse('an object', value, path, reading)
        const entries = Object.entries(value).map(([name, item]) => {
          if (!key.accepts(name)) {
            reading.problems.push(
              `expected each key of ${nameOf(path)} to be ${key.expected}, got ${show(name)}`,
            )
            return invalid
          }
          const result = of.read(item, joinPath(path, name), reading)
          return result === invalid ? invalid : ([name, result] as const)
        })
        const all = allOf(entries)
        return all === invalid ? invalid : Object.freeze(Object.fromEntries(all))
      },
    },
    required,
  )
}

/**
 * An object with known keys. An unknown key is refused, with the nearest known one as a suggestion. `check` sees
 * the whole when every part fits and answers a sentence when they do not fit together.
 */
export function object<const F extends Fields>(
  fields: F,
  { check }: { check?: (value: ObjectOutput<F>, path: string) => string | undefined } = {},
): Spec<ObjectOutput<F>, ObjectInput<F>, 'required'> {
  return createSpec<ObjectOutput<F>, ObjectInput<F>, 'required'>(
    {
      expected: 'an object',
      shape: { kind: 'object', fields, ...(check === undefined ? {} : { check }) },
      read(value, path, reading) {
        if (!isPlainObject(value)) return refuse('an object', value, path, reading)
        const result: Record<string, unknown> = {}
        let fits = reportUnknownKeys(value, fields, path, reading)
        for (const [name, spec] of Object.entries(fields)) {
          const at = joinPath(path, name)
          const written = Object.hasOwn(value, name) ? value[name] : undefined
          const present = written !== undefined
          if (!present && spec.presence === 'optional') continue
          if (!present && spec.presence === 'required') {
            reading.problems.push(`expected ${at} to be ${spec.expected}, but it is missing`)
            fits = false
            continue
          }
          const read = spec.read(present ? written : spec.fallback, at, reading)
          if (read === invalid) fits = false
          else result[name] = read
        }
        if (!fits) return invalid
        const whole = Object.freeze(result) as ObjectOutput<F>
        const problem = check?.(whole, path)
        if (problem === undefined) return whole
        reading.problems.push(problem)
        return invalid
      },
    },
    required,
  )
}

/** An object spec with further keys, for what several kinds of objects have in common. */
export function extend(spec: Spec, fields: Fields): Spec {
  const { shape } = spec
  if (shape.kind !== 'object') throw new TypeError('only an object spec can be extended')
  const check = shape.check as ((value: object, path: string) => string | undefined) | undefined
  return object({ ...shape.fields, ...fields }, check === undefined ? {} : { check })
}

/** An object whose key `tag` says which of several shapes it has, for example a destination and its `type`. */
export function variants<const V extends Readonly<Record<string, Spec>>, const Tag extends string>(
  tag: Tag,
  of: V,
): Spec<VariantsOutput<V, Tag>, VariantsInput<V, Tag>, 'required'> {
  const chooser = oneOf(...Object.keys(of))
  return createSpec<VariantsOutput<V, Tag>, VariantsInput<V, Tag>, 'required'>(
    {
      expected: 'an object',
      shape: { kind: 'variants', tag, of },
      read(value, path, reading) {
        if (!isPlainObject(value)) return refuse('an object', value, path, reading)
        const { [tag]: chosen, ...rest } = value
        const at = joinPath(path, tag)
        if (chosen === undefined) {
          reading.problems.push(`expected ${at} to be ${chooser.expected}, but it is missing`)
          return invalid
        }
        const word = chooser.read(chosen, at, reading)
        if (word === invalid) return invalid
        const read = of[word]!.read(rest, path, reading)
        return read === invalid
          ? invalid
          : (Object.freeze({ [tag]: word, ...(read as object) }) as VariantsOutput<V, Tag>)
      },
    },
    required,
  )
}
type VariantsOutput<V, Tag extends string> = {
  [K in keyof V]: Flat<{ [T in Tag]: K } & OptionsOf<V[K]>>
}[keyof V]
type VariantsInput<V, Tag extends string> = {
  [K in keyof V]: Flat<{ [T in Tag]: K } & OptionsInput<V[K]>>
}[keyof V]

/** The first spec whose kind of value this is; `choose` tells which, by its index. */
export function either<const S extends readonly Spec[]>(
  of: S,
  choose: (value: unknown) => number,
): Spec<OptionsOf<S[number]>, OptionsInput<S[number]>, 'required'> {
  return createSpec<OptionsOf<S[number]>, OptionsInput<S[number]>, 'required'>(
    {
      expected: of.map((spec) => spec.expected).join(' or '),
      shape: { kind: 'either', of },
      read: (value, path, reading) => of[choose(value)]!.read(value, path, reading) as OptionsOf<S[number]>,
    },
    required,
  )
}

function nameOf(path: string): string {
  return path === '' ? 'the options' : path
}

function refuse(expected: string, value: unknown, path: string, reading: Reading): typeof invalid {
  const source = reading.sources.get(path)
  const from = source === undefined || source.name === '' ? '' : ` from ${source.name}`
  const shown = source?.hidden === true ? hide(value) : show(value)
  reading.problems.push(`expected ${nameOf(path)} to be ${expected}, got ${shown}${from}`)
  return invalid
}

function allOf<T>(items: readonly (T | typeof invalid)[]): readonly T[] | typeof invalid {
  return items.includes(invalid) ? invalid : Object.freeze(items as T[])
}

function reportUnknownKeys(
  value: Record<string, unknown>,
  fields: Fields,
  path: string,
  reading: Reading,
): boolean {
  const known = Object.keys(fields)
  const unknown = Object.keys(value).filter((key) => !Object.hasOwn(fields, key))
  for (const key of unknown) {
    const near = closest(key, known) ?? nested(key, fields)
    const at = looksSecret.test(key) && /[:@\s]/.test(key) ? hide(key) : JSON.stringify(joinPath(path, key))
    reading.problems.push(
      near === undefined
        ? `unknown option ${at}, expected one of ${known.join(', ')}`
        : `unknown option ${at}, did you mean ${JSON.stringify(path === '' ? near : `${path}.${near}`)}?`,
    )
  }
  return unknown.length === 0
}

/** A key that was written one level too high: `batchSize` for `relay.batchSize`. */
function nested(key: string, fields: Fields): string | undefined {
  const [parent] =
    Object.entries(fields).find(
      ([, { shape }]) => shape.kind === 'object' && Object.hasOwn(shape.fields, key),
    ) ?? []
  return parent === undefined ? undefined : joinPath(parent, key)
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
