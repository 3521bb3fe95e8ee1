import { fileURLToPath } from 'node:url'

/** The folder of the project; for the compiled children their parent says where it is. */
export const projectFolder =
  process.env['WAYBILL_BENCH_PROJECT'] ?? fileURLToPath(new URL('..', import.meta.url))
