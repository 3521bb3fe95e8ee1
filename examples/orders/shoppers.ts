import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Ledger } from './ledger.ts'
import type { Committed, NewOrder, OrdersService } from './orders-service.ts'

export const eventsPerOrder = 4

export interface ShoppersOptions {
  service: OrdersService
  ledger: Pick<Ledger, 'committed'>
  /** How many orders; Infinity goes on until the signal. */
  orders: number
  /** So many write at once. */
  writers: number
  /** Pause of each writer after an order, in milliseconds. Default: 0. */
  pauseMs?: number
  signal: AbortSignal
}

export interface ShoppersReport {
  orders: number
  /** Transactions that failed at their commit, with an event in them. */
  rolledBack: number
}

/** Many customers at once, each order going through its three steps. What was committed is told to the ledger. */
export async function shop(options: ShoppersOptions): Promise<ShoppersReport> {
  const { service, ledger, orders, writers, pauseMs = 0, signal } = options
  const report: ShoppersReport = { orders: 0, rolledBack: 0 }
  let next = 0

  async function write(step: Promise<Committed[]>): Promise<void> {
    for (const event of await step) ledger.committed(event)
  }

  async function buy(number: number): Promise<void> {
    const order = orderOf(number)
    await write(number % 7 === 0 ? service.placeBySql(order) : service.place(order))
    if (number % 20 === 1) await doubleClick(order)
    await write(service.pay(order.id))
    await write(service.ship(order.id))
    report.orders++
  }

  async function doubleClick(order: NewOrder): Promise<void> {
    try {
      await write(service.place({ ...order, id: randomUUID() }))
    } catch (error) {
      const { constraint } = error as { constraint?: string }
      if (constraint !== 'orders_basket_key') throw error
      report.rolledBack++
    }
  }

  async function writer(): Promise<void> {
    while (next < orders && !signal.aborted) {
      await buy(next++)
      if (pauseMs > 0) await delay(pauseMs, undefined, { signal }).catch(() => undefined)
    }
  }

  await Promise.all(Array.from({ length: writers }, writer))
  return report
}

// Whatever a system in the middle might trip over is among them.
const customers = [
  ...['zoë:7', 'a/b?c#d', '100 %', '顧客 8', '🦊', 'O\'Brien "the 2nd"', 'x'.repeat(255)],
  ...Array.from({ length: 43 }, (_, index) => `customer-${index + 8}`),
]
const notes = [
  '',
  'ring twice',
  'naïve café \u{1f4e6}',
  'line one\nline two\t"quoted" \\ back',
  '\u2028 \u00a0 \u202e',
]
const totals = ['1.10', '0.30', '90071992547409.93', '100.00', '19.90']

function orderOf(number: number): NewOrder {
  return {
    id: `order-${number + 1}`,
    customerId: customers[number % customers.length]!,
    total: totals[number % totals.length]!,
    note: notes[number % notes.length]!,
    basket: randomUUID(),
  }
}
