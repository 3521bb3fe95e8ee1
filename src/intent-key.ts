/** How a publication of one revision is printed: `n-42:7`, or `n-42:7#scope`. For people only: it is never split. */
export function intentKey({ id, revision, scope }: { id: string; revision: bigint; scope: string }): string {
  return `${id}:${revision}${scope === '' ? '' : `#${scope}`}`
}
