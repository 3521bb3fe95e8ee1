import { describe, expect, it } from 'vitest'
import { median, percentile, ratio, ratioOfRounds, rounded, spread } from '../../bench/statistics.ts'

describe('median', () => {
  it('is the middle of an odd number of values, whatever their order', () => {
    expect(median([9, 1, 5])).toBe(5)
    expect(median([7])).toBe(7)
  })

  it('is the mean of the two in the middle of an even number', () => {
    expect(median([10, 1, 2, 4])).toBe(3)
  })

  it('compares numbers, not their text', () => {
    expect(median([100, 9, 10])).toBe(10)
  })

  it('leaves the values as they were', () => {
    const values = [3, 1, 2]
    median(values)
    expect(values).toEqual([3, 1, 2])
  })

  it('is not a number when there is nothing', () => {
    expect(median([])).toBeNaN()
  })
})

describe('percentile', () => {
  const hundred = Array.from({ length: 100 }, (_, i) => 100 - i)

  it('is the value of the nearest rank', () => {
    expect(percentile(hundred, 50)).toBe(50)
    expect(percentile(hundred, 99)).toBe(99)
    expect(percentile(hundred, 99.5)).toBe(100)
  })

  it('reaches from the smallest value to the largest', () => {
    expect(percentile(hundred, 0)).toBe(1)
    expect(percentile(hundred, 100)).toBe(100)
    expect(percentile([8], 50)).toBe(8)
  })

  it('is never a value that was not measured', () => {
    expect(percentile([1, 1000], 50)).toBe(1)
    expect(percentile([1, 1000], 51)).toBe(1000)
  })

  it('is not a number when there is nothing', () => {
    expect(percentile([], 50)).toBeNaN()
  })

  it('refuses what is no percentage', () => {
    expect(() => percentile([1], 101)).toThrow('expected a percentile from 0 to 100, got 101')
    expect(() => percentile([1], Number.NaN)).toThrow(RangeError)
  })
})

describe('ratio', () => {
  it('says how many times the base goes into the value', () => {
    expect(ratio(30, 12)).toBe(2.5)
    expect(ratio(0, 12)).toBe(0)
  })

  it('is null where something is missing, never 0', () => {
    expect(ratio(null, 12)).toBeNull()
    expect(ratio(12, undefined)).toBeNull()
    expect(ratio(Number.NaN, 12)).toBeNull()
    expect(ratio(12, 0)).toBeNull()
  })
})

describe('the ratio of rounds', () => {
  it('compares the sides of each round with each other', () => {
    // The second round was three times as slow for both.
    expect(ratioOfRounds([12, 4, 13], [1, 1 / 3, 1])).toBe(12)
  })

  it('leaves out a round in which one side is missing', () => {
    expect(ratioOfRounds([8, null, 10], [2, 2, undefined])).toBe(4)
    expect(ratioOfRounds([8, 9], [2])).toBe(4)
  })

  it('is null when no round has both', () => {
    expect(ratioOfRounds([1], [null])).toBeNull()
    expect(ratioOfRounds([], [])).toBeNull()
  })
})

describe('spread', () => {
  it('is the largest distance from the median as a part of it', () => {
    expect(spread([90, 100, 130])).toBeCloseTo(0.3)
    expect(spread([50, 100, 130])).toBeCloseTo(0.5)
  })

  it('is 0 of a single value', () => {
    expect(spread([4])).toBe(0)
  })
})

describe('rounded', () => {
  it('keeps three digits of any size', () => {
    expect(rounded(12.3456)).toBe(12.3)
    expect(rounded(0.0012345)).toBe(0.00123)
    expect(rounded(91234)).toBe(91200)
  })

  it('is null for what is no figure', () => {
    expect(rounded(null)).toBeNull()
    expect(rounded(Number.NaN)).toBeNull()
  })
})
