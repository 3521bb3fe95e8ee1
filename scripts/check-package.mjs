// Checks what would be published: builds it, packs it, lints the tarball, installs it in an empty project and uses
// it there as a stranger would.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const project = fileURLToPath(new URL('..', import.meta.url))
const {
  exports: entryPoints,
  peerDependencies,
  version,
} = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'))
const work = mkdtempSync(join(tmpdir(), 'waybill-package-'))
process.on('exit', () => rmSync(work, { recursive: true, force: true }))

/** Importing `waybill` must load none of these: a service that only writes events pays for nothing else. */
const notForWriters = [
  'pg',
  'undici',
  'hono',
  'prom-client',
  'pino',
  'commander',
  'jiti',
  'yaml',
  ...Object.keys(peerDependencies),
]

const tarball = step('npm pack, which builds', () => {
  const { stdout } = run('npm', ['pack', '--json', '--foreground-scripts=false', '--pack-destination', work])
  const [{ filename, files }] = JSON.parse(stdout)
  const strange = files
    .map(({ path }) => path)
    .filter((path) => !/^(dist\/|package\.json$|[A-Z]+(\.md)?$)/.test(path))
  if (strange.length > 0) fail(`these files do not belong into the package: ${strange.join(', ')}`)
  return join(work, filename)
})

step('publint', () => run(bin('publint'), [tarball, '--strict']))
step('attw', () => run(bin('attw'), [tarball, '--profile', 'esm-only', '--no-emoji']))

const consumer = join(work, 'consumer')
step('install', () => {
  mkdirSync(consumer)
  writeFileSync(
    join(consumer, 'package.json'),
    JSON.stringify({ name: 'consumer', private: true, type: 'module' }),
  )
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline', '--package-lock=false']
  run('npm', ['install', ...flags, tarball], { cwd: consumer })
})

const installed = join(consumer, 'node_modules', 'waybill')
const names = Object.keys(entryPoints)
  .filter((name) => !name.endsWith('.json'))
  .flatMap(expand)

step(`import ${names.length} entry points`, () => {
  for (const name of names) loadedBy(name)
})

step('import of "waybill" is light', () => {
  const heavy = loadedBy('waybill').filter((name) => notForWriters.includes(name))
  if (heavy.length > 0) fail(`importing "waybill" loads ${heavy.join(', ')}`)
  // The same look must find pg where it is sure to be, or it would find nothing anywhere.
  if (!loadedBy('waybill/relay').includes('pg'))
    fail('the look at loaded packages does not see pg in "waybill/relay"')
})

step('types', () => {
  const lines = names.map((name, i) => `import * as m${i} from '${name}'\nexport const n${i} = m${i}`)
  writeFileSync(join(consumer, 'index.ts'), lines.join('\n'))
  const options = {
    module: 'NodeNext',
    target: 'ES2023',
    strict: true,
    noEmit: true,
    skipLibCheck: false,
    types: [],
  }
  writeFileSync(
    join(consumer, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: options, files: ['index.ts'] }),
  )
  const { stdout } = run(
    process.execPath,
    [join(project, 'node_modules/typescript/bin/tsc'), '--pretty', 'false'],
    {
      cwd: consumer,
      mayFail: true,
    },
  )
  const ours = stdout.split('\n').filter((line) => /^(index\.ts|node_modules\/waybill\/)/.test(line))
  if (ours.length > 0) fail(ours.join('\n'))
})

step('command', () => {
  const { stdout } = run(process.execPath, [join(installed, 'dist/cli/main.js'), '--version'], {
    cwd: consumer,
  })
  if (!stdout.includes(version)) fail(`expected waybill --version to print ${version}, got ${stdout}`)
})

/** The specifiers of one entry of `exports`; a pattern stands for each file that it matches. */
function expand(name) {
  const specifier = name.replace(/^\./, 'waybill')
  if (!name.includes('*')) return [specifier]
  const target = entryPoints[name].default
  const [before, after] = target.split('*')
  const folder = join(installed, before)
  if (!existsSync(folder)) fail(`${name} points into ${before}, which is not in the package`)
  const files = readdirSync(folder).filter((file) => file.endsWith(after))
  return files.map((file) => specifier.replace('*', file.slice(0, -after.length)))
}

/** Names of the packages that a process has loaded after it imported a module. */
function loadedBy(specifier) {
  const hooks = `
    import { appendFileSync } from 'node:fs'
    export async function resolve(specifier, context, next) {
      const resolved = await next(specifier, context)
      appendFileSync(process.env.LOADED, resolved.url + '\\n')
      return resolved
    }`
  const script = `
    import module from 'node:module'
    import { appendFileSync } from 'node:fs'
    module.register('./hooks.mjs', import.meta.url)
    await import('${specifier}')
    for (const file of Object.keys(module._cache)) appendFileSync(process.env.LOADED, file + '\\n')`
  const log = join(work, 'loaded')
  writeFileSync(log, '')
  writeFileSync(join(consumer, 'hooks.mjs'), hooks)
  writeFileSync(join(consumer, 'load.mjs'), script)
  run(process.execPath, ['load.mjs'], { cwd: consumer, env: { ...process.env, LOADED: log } })
  const packages = readFileSync(log, 'utf8').matchAll(
    /node_modules\/((?:@[^/]+\/)?[^/\n]+)(?!.*node_modules\/)/g,
  )
  return [...new Set([...packages].map(([, name]) => name))]
}

function bin(name) {
  return join(project, 'node_modules/.bin', name)
}

function run(command, args, { mayFail = false, ...options } = {}) {
  const result = spawnSync(command, args, { cwd: project, encoding: 'utf8', maxBuffer: 2 ** 26, ...options })
  if (!mayFail && result.status !== 0) {
    fail(
      `${command} ${args.join(' ')} failed\n${result.stdout ?? ''}${result.stderr ?? ''}${result.error ?? ''}`,
    )
  }
  return result
}

function step(name, work) {
  const result = work()
  console.log(`package check: ${name}: ok`)
  return result
}

function fail(message) {
  console.error(`package check: ${message}`)
  process.exit(1)
}
