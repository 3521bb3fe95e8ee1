import { describe, expect, it } from 'vitest'
import { whenAborted } from '../../src/brokers/abort.ts'
import { createLanes } from '../../src/brokers/lanes.ts'

const never = whenAborted()

describe('lanes', () => {
  it('let in as many as there are, and the others in the order in which they came', async () => {
    const lanes = createLanes(2)
    const order: number[] = []
    const enter = async (n: number) => {
      const leave = await lanes.enter(never)
      order.push(n)
      return leave!
    }
    const [first, second] = await Promise.all([enter(1), enter(2)])
    const third = enter(3)
    const fourth = enter(4)
    await new Promise(setImmediate)
    expect(order).toEqual([1, 2])
    second()
    await third
    expect(order).toEqual([1, 2, 3])
    first()
    await fourth
    expect(order).toEqual([1, 2, 3, 4])
  })

  it('are freed once, however often that is said', async () => {
    const lanes = createLanes(1)
    const leave = (await lanes.enter(never))!
    leave()
    leave()
    await lanes.enter(never)
    let entered = false
    void lanes.enter(never).then(() => (entered = true))
    await new Promise(setImmediate)
    expect(entered).toBe(false)
  })

  it('answer null to whoever gives up, and forget him', async () => {
    const lanes = createLanes(1)
    const leave = (await lanes.enter(never))!
    const controller = new AbortController()
    const call = whenAborted(controller.signal)
    const waiting = lanes.enter(call)
    const next = lanes.enter(never)
    controller.abort()
    expect(await waiting).toBeNull()
    leave()
    expect(await next).toBeTypeOf('function')
    expect(await lanes.enter(call)).toBeNull()
    expect(await lanes.enter(whenAborted(controller.signal))).toBeNull()
  })
})
