import { access, readFile } from 'node:fs/promises'
import { basename, dirname, extname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { WaybillError, describeError } from '../errors.ts'

/** In the order in which they are looked for; more than one is refused. */
export const configurationFileNames = ['ts', 'js', 'mjs', 'json', 'yaml', 'yml'].map(
  (extension) => `waybill.config.${extension}`,
)

export interface ConfigurationFile {
  path: string
  /** What it says, not checked yet. */
  value: unknown
}

/**
 * The configuration file of a folder, or the named one; null when there is none and none was named.
 *
 * @throws CONFIGURATION_INVALID when the named one is missing, when there are several, or when it cannot be read
 */
export async function readConfigurationFile(
  cwd: string,
  named: string | undefined,
): Promise<ConfigurationFile | null> {
  const path = named === undefined ? await find(cwd) : resolve(cwd, named)
  if (path === undefined) return null
  const read = readers[extname(path)]
  if (read === undefined) {
    throw unreadable(path, `expected a file that ends with ${Object.keys(readers).join(', ')}, got ${path}`)
  }
  if (!(await exists(path)))
    throw unreadable(path, `there is no configuration file ${path}, "waybill init" writes one`)
  return { path, value: await read(path) }
}

async function find(cwd: string): Promise<string | undefined> {
  const paths = configurationFileNames.map((name) => resolve(cwd, name))
  const present = await Promise.all(paths.map(exists))
  const found = paths.filter((_, index) => present[index])
  if (found.length > 1) {
    const names = found.map((path) => basename(path)).join(' and ')
    throw unreadable(found[0]!, `${dirname(found[0]!)} has ${names}: keep one, or choose one with --config`)
  }
  return found[0]
}

const readers: Readonly<Record<string, (path: string) => Promise<unknown>>> = {
  '.ts': readModule,
  '.js': readModule,
  '.mjs': readModule,
  '.json': readJson,
  '.yaml': readYaml,
  '.yml': readYaml,
}

async function readText(path: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).replace(/^\uFEFF/, '')
  } catch (error) {
    throw unreadable(path, `cannot read ${path}: ${describeError(error, 300)}`, error)
  }
}

async function readJson(path: string): Promise<unknown> {
  const text = await readText(path)
  try {
    return JSON.parse(text) as unknown
  } catch {
    // The parser's own message quotes the file, and with it perhaps a password: only the place is told.
    throw unreadable(path, `${path} is not valid JSON${await placeInJson(text)}`)
  }
}

/** JSON is nearly YAML: its parser knows the line. */
async function placeInJson(text: string): Promise<string> {
  const { parseDocument } = await import('yaml')
  return placeOf(parseDocument(text, { prettyErrors: true, strict: true }).errors[0])
}

async function readYaml(path: string): Promise<unknown> {
  const text = await readText(path)
  const { parseDocument } = await import('yaml')
  const document = parseDocument(text, { prettyErrors: true, merge: true })
  const [error] = document.errors
  if (error !== undefined) {
    throw unreadable(
      path,
      `${path} is not valid YAML${placeOf(error)} (${error.code.toLowerCase().replaceAll('_', ' ')})`,
    )
  }
  try {
    return document.toJS() as unknown
  } catch {
    throw unreadable(
      path,
      `${path} is not valid YAML: it uses an alias without an anchor, or too many of them`,
    )
  }
}

function placeOf(error: { linePos?: readonly { line: number; col: number }[] } | undefined): string {
  const place = error?.linePos?.[0]
  return place === undefined ? '' : ` at line ${place.line}, column ${place.col}`
}

async function readModule(path: string): Promise<unknown> {
  const { createJiti } = await import('jiti')
  const entry = new URL(import.meta.url.endsWith('.ts') ? './index.ts' : './index.js', import.meta.url)
  // Nothing is written beside the user's files, and defineConfig is found however waybill was started.
  const jiti = createJiti(import.meta.url, {
    fsCache: false,
    alias: { 'waybill/config': fileURLToPath(entry) },
  })
  try {
    const module = await jiti.import<{ default?: unknown }>(path)
    // jiti answers the module itself as the default of one that has none.
    const exported = Object.hasOwn(module, 'default') ? module.default : undefined
    if (exported === undefined) {
      throw unreadable(path, `${path} has no default export: write "export default defineConfig({ … })"`)
    }
    const given: unknown = typeof exported === 'function' ? (exported as () => unknown)() : exported
    return given instanceof Promise ? ((await given) as unknown) : given
  } catch (error) {
    if (error instanceof WaybillError) throw error
    const [firstLine] = describeError(error, 300).trim().split('\n')
    throw unreadable(path, `cannot load ${path}: ${firstLine}`, error)
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

function unreadable(file: string, message: string, cause?: unknown): WaybillError {
  return new WaybillError('CONFIGURATION_INVALID', message, { cause, details: { file } })
}
