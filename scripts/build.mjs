// Builds dist/: JavaScript and declarations by tsc, everything in src/ that is not TypeScript copied beside them.
// With --if-changed only when something in src/ is newer than dist/.
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const project = fileURLToPath(new URL('..', import.meta.url))
const dist = join(project, 'dist')
const started = new Date()

if (process.argv.includes('--if-changed') && isFresh()) process.exit(0)

// Built aside and moved into place, so that dist/ is never half of anything.
const fresh = join(project, 'node_modules', `.waybill-build-${process.pid}`)
const tsc = spawnSync(
  process.execPath,
  [
    join(project, 'node_modules/typescript/bin/tsc'),
    '-p',
    join(project, 'tsconfig.build.json'),
    '--outDir',
    fresh,
  ],
  { stdio: 'inherit' },
)
if (tsc.status !== 0) fail('tsc reported errors')
for (const file of filesOf(join(project, 'src'))) {
  if (!file.endsWith('.ts')) cpSync(join(project, 'src', file), join(fresh, file))
}
makeExecutable(join(fresh, 'cli', 'main.js'))
utimesSync(fresh, started, started)
swap()

/** Two renames: whoever runs dist/ meanwhile misses it for an instant only. Another build may do the same. */
function swap() {
  const old = `${fresh}-old`
  for (let attempt = 1; ; attempt++) {
    if (existsSync(dist)) renameSync(dist, old)
    try {
      renameSync(fresh, dist)
      break
    } catch (error) {
      if (error.code !== 'ENOTEMPTY' || attempt === 10) throw error
    }
    rmSync(old, { recursive: true, force: true })
  }
  rmSync(old, { recursive: true, force: true })
}

function makeExecutable(file) {
  if (!existsSync(file)) fail('src/cli/main.ts is missing')
  if (!readFileSync(file, 'utf8').startsWith('#!/usr/bin/env node\n')) {
    fail('src/cli/main.ts must start with "#!/usr/bin/env node"')
  }
  chmodSync(file, 0o755)
}

function isFresh() {
  if (!existsSync(dist)) return false
  const built = statSync(dist).mtimeMs
  const sources = ['', ...readdirSync(join(project, 'src'), { recursive: true })].map((file) =>
    join('src', file),
  )
  return [...sources, 'tsconfig.json', 'tsconfig.build.json', 'scripts/build.mjs'].every(
    (file) => statSync(join(project, file)).mtimeMs < built,
  )
}

function filesOf(folder) {
  return readdirSync(folder, { recursive: true }).filter((file) => statSync(join(folder, file)).isFile())
}

function fail(message) {
  rmSync(fresh, { recursive: true, force: true })
  console.error(`build: ${message}`)
  process.exit(1)
}
