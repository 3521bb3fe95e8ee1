import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that take longest, longest first: begun last, they would run alone at the end. */
const long = [
  /demo\/(lab|orders)\.e2e/,
  /faults\/(matrix-.*|chain)\.e2e/,
  /relay\/slow-destinations/,
  /brokers\/(reading|sqs-source|.*-source-contract)\.int/,
  /faults\//,
]

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const at = long.findIndex((pattern) => pattern.test(moduleId))
      return at < 0 ? long.length : at
    }
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}
