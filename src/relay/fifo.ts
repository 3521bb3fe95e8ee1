/** A queue whose front is taken in constant time. */
export interface Fifo<T> {
  readonly size: number
  push(item: T): void
  shift(): T | undefined
  peek(): T | undefined
}

export function createFifo<T>(): Fifo<T> {
  let items: T[] = []
  let front = 0
  return {
    get size() {
      return items.length - front
    },
    push: (item) => void items.push(item),
    peek: () => items[front],
    shift() {
      if (front === items.length) return undefined
      const item = items[front]
      items[front++] = undefined as T
      if (front > 1024 && front * 2 > items.length) {
        items = items.slice(front)
        front = 0
      }
      return item
    },
  }
}
