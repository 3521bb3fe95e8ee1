import type { TestRunner } from './publisher-bench.ts'
import type { SourceBench, SourceSubject } from './source-bench.ts'
import { sourceChecks } from './source-checks.ts'

/**
 * Tests a source against the contract of `Source`, with a real broker.
 *
 *     testSource({ name: 'rabbitmq', features: {…}, setUp: async () => bench }, { describe, it, afterAll })
 */
export function testSource(subject: SourceSubject, { describe, it, afterAll }: TestRunner): void {
  describe(`${subject.name} as a source`, () => {
    let bench: Promise<SourceBench> | undefined
    afterAll(async () => (await bench)?.tearDown())
    for (const { name, applies, run } of sourceChecks) {
      if (applies(subject.features))
        it(name, async () => run(await (bench ??= subject.setUp()), subject.features))
    }
  })
}
