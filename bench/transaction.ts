/** The business row of a producer's transaction; `id` is an SQL expression. */
export function insertOrder(id: string): string {
  return `INSERT INTO bench_orders (customer, total) VALUES (${id}, 100)`
}

/** The outbox row; both parameters are SQL expressions of type text. */
export function insertEvent(aggregateId: string, payload: string): string {
  return `INSERT INTO waybill.outbox_events (aggregate_type, aggregate_id, event_type, payload)
    VALUES ('order', ${aggregateId}, 'order.created', ${payload}::jsonb)`
}

/** About 300 bytes, like every event of the benchmark. */
export const eventPayload = JSON.stringify({ orderId: 'o-1', total: 100, note: 'x'.repeat(250) })
