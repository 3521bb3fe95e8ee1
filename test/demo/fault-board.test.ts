import { describe, expect, it } from 'vitest'
import { createFaultBoard } from '../../examples/notes/fault-board.ts'
import type { Fault, Key } from '../../examples/notes/faults.ts'

const key: Key = { id: 'n', revision: 1 }

function fault(name: string, given: Partial<Fault>): Fault {
  const words = { name, title: `the ${name}`, does: '', expected: '', symptom: null }
  return { ...words, needs: [], inject: async () => key, mend: async () => undefined, ...given }
}

/** Work that ends when the test says so. */
function work() {
  let finish!: () => void
  let fail!: (error: Error) => void
  const done = new Promise<void>((resolve, reject) => {
    finish = resolve
    fail = reject
  })
  let times = 0
  const run = async () => {
    times++
    await done
    return key
  }
  return { run, finish, fail, times: () => times }
}

describe('a fault', () => {
  it('is done by one at a time', async () => {
    const inject = work()
    const board = createFaultBoard([fault('kill', { inject: inject.run })])
    const first = board.inject('kill')
    await expect(board.inject('kill')).rejects.toMatchObject({
      status: 409,
      message: expect.stringMatching(/at this moment/),
    })
    await expect(board.mend('kill')).rejects.toMatchObject({
      status: 409,
      message: expect.stringMatching(/mend it then/),
    })
    inject.finish()
    expect((await first).key).toEqual(key)
    await expect(board.inject('kill')).rejects.toMatchObject({
      status: 409,
      message: expect.stringMatching(/mend it first/),
    })
    expect(inject.times()).toBe(1)
  })

  it('is mended once, with the same answer for all who ask', async () => {
    const mend = work()
    const board = createFaultBoard([fault('kill', { mend: async () => void (await mend.run()) })])
    await expect(board.mend('kill')).rejects.toMatchObject({ status: 404 })
    await board.inject('kill')
    const asked = [board.mend('kill'), board.mend('kill')]
    mend.finish()
    expect(await Promise.all(asked)).toEqual([key, key])
    expect(await board.mend('kill')).toEqual(key)
    expect(mend.times()).toBe(1)
    await board.inject('kill')
  })

  it('can be done again after it failed, and mended again after that failed', async () => {
    const wrong = new Error('no such luck')
    const results = [() => Promise.reject(wrong), async () => key]
    const repairs = [() => Promise.reject(wrong), async () => undefined]
    const board = createFaultBoard([
      fault('kill', { inject: () => results.shift()!(), mend: () => repairs.shift()!() }),
    ])
    await expect(board.inject('kill')).rejects.toBe(wrong)
    await board.inject('kill')
    await expect(board.mend('kill')).rejects.toBe(wrong)
    expect(await board.mend('kill')).toEqual(key)
  })

  it('that is over as soon as it is done may be done again', async () => {
    const { mend: _, ...twice } = fault('twice', {})
    const board = createFaultBoard([twice])
    await board.inject('twice')
    expect(board.entries[0]).toMatchObject({ status: 'ready', hit: key })
    await board.inject('twice')
  })
})

describe('faults beside each other', () => {
  it('are refused where they need what another has taken away, which is named', async () => {
    const board = createFaultBoard([
      fault('kill', { needs: ['relay'], takes: 'relay' }),
      fault('reject', { needs: ['relay'], mendNeeds: ['relay'] }),
      fault('forget', {}),
    ])
    await board.inject('reject')
    await board.inject('kill')
    const refusal = {
      ...{
        status: 409,
        message: '"the reject" needs the relay, which "the kill" has taken away: mend that first',
      },
    }
    await expect(board.mend('reject')).rejects.toMatchObject(refusal)
    await board.inject('forget')
    await board.mend('kill')
    await board.mend('reject')
    await board.inject('kill')
    await expect(board.inject('reject')).rejects.toMatchObject(refusal)
  })

  it('take nothing away from one that is being done', async () => {
    const inject = work()
    const board = createFaultBoard([
      fault('kill', { takes: 'relay' }),
      fault('twice', { needs: ['relay'], inject: inject.run }),
    ])
    const doing = board.inject('twice')
    await expect(board.inject('kill')).rejects.toMatchObject({
      status: 409,
      message: expect.stringMatching(/"the twice" needs at this/),
    })
    inject.finish()
    await doing
    await board.inject('kill')
  })
})
