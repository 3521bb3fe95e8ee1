import type { SourceObserver } from '../publishing/source.ts'

/** Tells each change of state once. */
export interface SourceState {
  failed(error: Error): void
  works(): void
}

export function createSourceState(observer: SourceObserver): SourceState {
  let down = false
  return {
    failed(error) {
      if (!down) observer.down(error)
      down = true
    },
    works() {
      if (down) observer.up()
      down = false
    },
  }
}
