import { describe, expect, it } from 'vitest'
import { createPosition } from '../../src/brokers/kafka/position.ts'

describe('the position in a partition', () => {
  it('is behind the last message before which everything is done', () => {
    const position = createPosition()
    for (const offset of ['5', '6', '7', '8']) position.add(offset)
    expect([position.span, position.commit]).toEqual([4, undefined])
    expect(position.done('6')).toBe(false)
    expect(position.done('7')).toBe(false)
    expect([position.span, position.commit]).toEqual([4, undefined])
    expect(position.done('5')).toBe(true)
    expect([position.span, position.commit]).toEqual([1, '8'])
    expect(position.done('8')).toBe(true)
    expect([position.span, position.commit]).toEqual([0, '9'])
  })

  it('passes over offsets that are missing, and holds those beyond 2^53', () => {
    const position = createPosition()
    for (const offset of ['3', '9007199254740993', '9007199254740999']) position.add(offset)
    for (const offset of ['3', '9007199254740993']) position.done(offset)
    expect(position.commit).toBe('9007199254740994')
  })

  it('does not move by what is not there, or was done before', () => {
    const position = createPosition()
    position.add('1')
    expect(position.done('2')).toBe(false)
    position.done('1')
    expect(position.done('1')).toBe(false)
    expect(position.commit).toBe('2')
  })
})
