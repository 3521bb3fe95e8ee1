import { WaybillError } from './errors.ts'

/** One option, or a group of them. */
export interface Spec<Output = unknown, Input = Output, P extends Presence = Presence> {
  /** Whether the option may be left out. */
  readonly presence: P
  /** What is expected, in the words of an error message: `an integer from 1 to 64`. */
  readonly expected: string
  /** What the option is for, as the documentation says it. */
  readonly text: string
  /** A secret is never printed. */
  readonly secret: boolean
  /** What applies when the option is left out; in the form in which a user would write it. */
  readonly fallback: Input | undefined
  readonly shape: Shape
  /** Checks one value; writes what is wrong to `reading.problems` and answers `invalid` then. */
  read(value: unknown, path: string, reading: Reading): Output | typeof invalid
  /** May be left out, and is `value` then. */
  default(value: Input): Spec<Output, Input, 'default'>
  /** May be left out, and is absent then. */
  optional(): Spec<Output, Input, 'optional'>
  describe(text: string): Spec<Output, Input, P>
}

export type Presence = 'required' | 'default' | 'optional'
export type Fields = Readonly<Record<string, Spec>>

/** Sees an object whose parts all fit, and answers a sentence when they do not fit together. */
export type ObjectCheck = (value: never, path: string) => string | undefined

/** How a spec is made up, for those who walk over it. */
export type Shape =
  | { readonly kind: 'value'; readonly type: 'string' | 'number' | 'boolean' | 'other' }
  | { readonly kind: 'object'; readonly fields: Fields; readonly check?: ObjectCheck }
  | { readonly kind: 'record' | 'list'; readonly of: Spec }
  | { readonly kind: 'either'; readonly of: readonly Spec[] }
  | { readonly kind: 'variants'; readonly tag: string; readonly of: Readonly<Record<string, Spec>> }

/** What `resolveOptions` answers for a spec. */
export type OptionsOf<S> = S extends Spec<infer Output, infer _Input, infer _P> ? Output : never
/** What a user may write for a spec. */
export type OptionsInput<S> = S extends Spec<infer _Output, infer Input, infer _P> ? Input : never

type KeysOf<F extends Fields, P extends Presence> = {
  [K in keyof F]: F[K]['presence'] extends P ? K : never
}[keyof F]
export type Flat<T> = { readonly [K in keyof T]: T[K] }
export type ObjectOutput<F extends Fields> = Flat<
  { [K in KeysOf<F, 'required' | 'default'>]: OptionsOf<F[K]> } & {
    [K in KeysOf<F, 'optional'>]?: OptionsOf<F[K]>
  }
>
export type ObjectInput<F extends Fields> = Flat<
  { [K in KeysOf<F, 'required'>]: OptionsInput<F[K]> } & {
    [K in KeysOf<F, 'default' | 'optional'>]?: OptionsInput<F[K]>
  }
>

/** Answered by `Spec.read` for a value that does not fit. */
export const invalid: unique symbol = Symbol('invalid')

/** Where a value came from when it was not written in place. */
export interface OptionSource {
  /** For messages: `WAYBILL_RELAY_BATCH_SIZE`, `--port`; empty when the path says it already. */
  readonly name: string
  /** True when the value must not be printed, whatever the option is. */
  readonly hidden: boolean
}

/** What goes along while values are read. */
export interface Reading {
  readonly problems: string[]
  /** Paths whose value is text from outside (environment, flags): there, `"5"` is a number and `"true"` a boolean. */
  readonly sources: ReadonlyMap<string, OptionSource>
}

export interface ResolveHow {
  /** Where the options stand, for messages: `relay`, `destinations.bus`. Default: the top. */
  path?: string
  /** Values that are text from the environment or a command line, by path. Default: none. */
  sources?: ReadonlyMap<string, OptionSource>
}

/**
 * What a user wrote as frozen, complete, typed options.
 *
 * @throws CONFIGURATION_INVALID; the first line of its message is the first problem, every further problem has a
 *   line of its own, and `details.problems` lists them all.
 */
export function resolveOptions<Output, Input, P extends Presence>(
  spec: Spec<Output, Input, P>,
  value: unknown,
  { path = '', sources = new Map() }: ResolveHow = {},
): Output {
  const reading: Reading = { problems: [], sources }
  const result = spec.read(value, path, reading)
  if (result === invalid || reading.problems.length > 0) throw configurationInvalid(reading.problems)
  return result
}

/** The error for a list of problems, each one sentence. */
export function configurationInvalid(
  problems: readonly string[],
  options: { cause?: unknown } = {},
): WaybillError {
  const shown =
    problems.length > 20 ? [...problems.slice(0, 20), `and ${problems.length - 20} more`] : problems
  return new WaybillError('CONFIGURATION_INVALID', shown.join('\n'), {
    ...options,
    details: { problems: Object.freeze([...problems]) },
  })
}

/** What makes a spec, before it is known whether it may be left out. */
export interface Definition<Output> {
  expected: string
  shape: Shape
  secret?: boolean
  read: (value: unknown, path: string, reading: Reading) => Output | typeof invalid
}

export function createSpec<Output, Input, P extends Presence>(
  definition: Definition<Output>,
  rest: { presence: P; text: string; fallback?: Input },
): Spec<Output, Input, P> {
  const { expected, shape, secret = false, read } = definition
  return Object.freeze({
    expected,
    shape,
    secret,
    fallback: undefined,
    ...rest,
    read,
    default: (fallback: Input) => createSpec(definition, { ...rest, presence: 'default' as const, fallback }),
    optional: () =>
      createSpec<Output, Input, 'optional'>(definition, { text: rest.text, presence: 'optional' }),
    describe: (text: string) => createSpec(definition, { ...rest, text }),
  })
}

/** For a spec as it is first made: required and without a text. */
export const required = { presence: 'required' as const, text: '' }
