"use strict";
// The horizontal axis of plans: picoseconds since the start of the inference, or ops.
(() => {
  const TIMES = [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"], [1, "ps"]];

  /** Begin of each op after the stall before it, of the tail and of the end, in ps: T + 2 numbers; made once a plan. */
  function beginOf(plan) {
    if (!plan.begin) {
      let end = 0;
      plan.begin = plan.op_ps.map((ps, op) => {
        const begin = end + plan.stall_ps[op];
        end += ps;
        return begin;
      });
      plan.begin.push(end, end + plan.tail_ps);
    }
    return plan.begin;
  }

  const hasTimes = (side) => beginOf(side.plan)[side.plan.op_ps.length] > 0;
  const last = (side) => side.plan.op_ps.length;

  /** The op that runs at a time: the last that has begun. */
  function opAtTime(plan, ps) {
    const begin = beginOf(plan);
    let [low, high] = [0, plan.op_ps.length];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (begin[middle] <= ps) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The axis of some plans; `at(side, op)` is where an op begins, `at(side, T + 1)` the end of the tail. */
  function make(sides, by) {
    if (by === "time") {
      return {
        by, most: Math.max(...sides.map((side) => beginOf(side.plan)[last(side) + 1])),
        at: (side, op) => beginOf(side.plan)[Math.min(op, last(side) + 1)],
        opAt: (side, x) => opAtTime(side.plan, x),
      };
    }
    const tail = sides.some((side) => side.plan.tail_ps > 0 || side.plan.blocks.end.some((end) => end >= last(side)));
    return { by, most: last(sides[0]) + (tail ? 1 : 0), at: (side, op) => op, opAt: (side, x) => Math.max(0, Math.floor(x)) };
  }

  /** The largest step of 1, 2 or 5 times a power of ten that gives about `count` ticks. */
  function step(width, count) {
    const rough = width / count, power = 10 ** Math.floor(Math.log10(rough));
    return power * ([1, 2, 5, 10].find((each) => each * power >= rough) ?? 10);
  }

  /** Ticks within a range: places and texts; `unit` is [size, name]. */
  function ticks(low, high, count, [size, name] = [1, ""]) {
    const width = step((high - low) / size, count);
    const found = [];
    for (let each = Math.ceil(low / size / width - 1e-9); each * width <= (high / size) * (1 + 1e-12); each++) {
      found.push([each * width * size, Number((each * width).toPrecision(12)).toLocaleString("en", { maximumFractionDigits: 6 })]);
    }
    return { list: found, name };
  }

  const timeUnit = (most) => TIMES.find(([size]) => most >= size) || TIMES[TIMES.length - 1];

  /** Ticks of a range of the axis, about 80 pixels apart. */
  function ticksOf(axis, [low, high], width) {
    const count = Math.max(3, width / 80);
    if (axis.by === "time") return ticks(low, high, count, timeUnit(high - low > 0 ? high : 1));
    const found = ticks(low, high, count);
    return { ...found, list: found.list.filter(([at]) => Number.isInteger(at)) };
  }

  Memplace.axis = { make, beginOf, hasTimes, ticks, ticksOf, timeUnit };
})();
