import { WaybillError } from '../errors.ts'

/**
 * Loads a library that only one broker needs.
 *
 * @throws DEPENDENCY_MISSING with the command that installs it
 */
export async function loadDependency<T>(broker: string, library: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw cause
    throw new WaybillError(
      'DEPENDENCY_MISSING',
      `${broker} needs the package ${library}, which is not installed: run "npm install ${library}"`,
      { cause, details: { package: library } },
    )
  }
}
