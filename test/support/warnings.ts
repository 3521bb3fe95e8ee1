import { onTestFinished } from 'vitest'

/** The warnings that Node gives from now on to the end of the test. */
export function nodeWarnings(): readonly Error[] {
  const warnings: Error[] = []
  const warned = (warning: Error) => void warnings.push(warning)
  process.on('warning', warned)
  onTestFinished(() => void process.off('warning', warned))
  return warnings
}
