"use strict";
// Plans on a canvas: for each, its fast levels as blocks over time or ops and addresses, and below them the ops' times.
(() => {
  const { bytes } = Memplace.text;
  const { theme, axis } = Memplace;
  const LEVEL_PX = 200, TIME_PX = 64, TITLE_PX = 30, AXIS_PX = 34, BETWEEN_PX = 20, RIGHT_PX = 12;
  const NAME_PX = 12, MOST_NAMES = 400;
  const unitOf = (most) => [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]].find(([size]) => most >= size) || [1, "B"];

  /** The highest address that any of the plans uses in a level, and a little more. */
  function topOf(document_, sides, level) {
    let top = 0;
    for (const { plan: { blocks } } of sides) {
      blocks.level.forEach((each, block) => {
        if (each === level) top = Math.max(top, blocks.offset[block] + blocks.bytes[block]);
      });
    }
    return top * 1.02 || document_.levels[level].capacity;
  }

  /** The panels from top to bottom, with what each shows: `blocks` are indices into the plan's columns. */
  function panels(document_, sides, width) {
    const backing = document_.levels.length - 1;
    const used = [...Array(backing).keys()].filter((level) => sides.some((side) => side.plan.blocks.level.includes(level)));
    const left = width < 600 ? 44 : 62;
    const found = [];
    let down = 0;
    const add = (panel, height) => {
      found.push({ left, right: width - RIGHT_PX, from: down + TITLE_PX, to: down + TITLE_PX + height, ...panel });
      down += TITLE_PX + height;
    };
    for (const side of sides) {
      if (side !== sides[0]) down += BETWEEN_PX;
      for (const level of used.length ? used : [0]) {
        const blocks = side.plan.blocks.level.flatMap((each, block) => (each === level ? [block] : []));
        add({ side, kind: "level", level, key: `${side.letter}${level}`, blocks, top: topOf(document_, sides, level) }, LEVEL_PX);
      }
      add({ side, kind: "time", top: 1 }, TIME_PX);
      down += AXIS_PX;
    }
    return { list: found, height: down };
  }

  /** The range of addresses that a panel shows. */
  const upward = (scene, panel) => (panel.kind === "level" && scene.view.y[panel.key]) || [0, panel.top];

  /** Functions from the axis and from addresses to pixels of a panel. */
  function scales(scene, panel) {
    const [low, high] = scene.view.x, [bottom, top] = upward(scene, panel);
    const across = (panel.right - panel.left) / (high - low), up = (panel.to - panel.from) / (top - bottom);
    return { x: (at) => panel.left + (at - low) * across, y: (value) => panel.to - (value - bottom) * up };
  }

  /** Left, top, width and height of a block in pixels. */
  function rectangle(scene, panel, block, { x, y } = scales(scene, panel)) {
    const { offset, start, end, bytes: size } = panel.side.plan.blocks;
    const from = x(scene.axis.at(panel.side, start[block])), to = x(scene.axis.at(panel.side, end[block] + 1));
    const high = y(offset[block] + size[block]), low = y(offset[block]);
    return [from, high, to - from, low - high];
  }

  const inside = ([left, top, width, height], panel) =>
    left < panel.right && left + width > panel.left && top < panel.to && top + height > panel.from;

  /** Whether white letters are easier to read on a colour than black ones. */
  function isDark(colour) {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.5;
  }

  /** Draw blocks, with names where there is room; those of other tensors than the marked one are pale. */
  function drawBlocks(pen, scene, panel) {
    const { kinds, tensors } = scene.document_;
    const { kind, tensor } = panel.side.plan.blocks;
    const scale = scales(scene, panel);
    const named = [];
    for (const block of panel.blocks) {
      const box = rectangle(scene, panel, block, scale);
      if (!inside(box, panel)) continue;
      const [left, top, width, height] = box;
      const gap = width > 3 && height > 3 ? 0.75 : 0; // an edge only where it leaves something of the block
      pen.globalAlpha = scene.marked === null || scene.marked === tensor[block] ? 1 : 0.22;
      pen.fillStyle = kinds[kind[block]].colour;
      pen.fillRect(left, top, Math.max(width - gap, 0.6), Math.max(height - gap, 0.6));
      if (height > NAME_PX + 1 && width > 24) named.push([block, box]);
    }
    pen.globalAlpha = 1;
    pen.font = scene.font(NAME_PX);
    pen.textBaseline = "middle";
    named.sort((a, b) => b[1][2] * b[1][3] - a[1][2] * a[1][3]);
    for (const [block, [left, top, width, height]] of named.slice(0, MOST_NAMES)) {
      const from = Math.max(left, panel.left) + 4, room = Math.min(left + width, panel.right) - from - 4;
      const name = fitting(pen, tensors[tensor[block]], room);
      if (!name) continue;
      const pale = scene.marked !== null && scene.marked !== tensor[block];
      pen.fillStyle = pale ? theme.colour("muted") : isDark(kinds[kind[block]].colour) ? "#ffffff" : "#000000";
      pen.fillText(name, from, (Math.max(top, panel.from) + Math.min(top + height, panel.to)) / 2);
    }
  }

  /** The name, or its end, which tells tensors apart, in so many pixels; "" if there is no room for four letters. */
  function fitting(pen, name, room) {
    const whole = pen.measureText(name.slice(-200)).width;
    if (whole <= room) return name.slice(-200);
    const letters = Math.floor((name.length * room) / whole) - 2;
    return letters < 4 ? "" : `…${name.slice(-letters)}`;
  }

  /** Copies: a line while they may run, a mark where they end; only where the block is high enough to show them. */
  function drawCopies(pen, scene, panel) {
    const { blocks, copies } = panel.side.plan;
    const scale = scales(scene, panel);
    pen.strokeStyle = pen.fillStyle = theme.colour("mark");
    pen.lineWidth = 1.2;
    copies.target.forEach((target, copy) => {
      const arrives = target === panel.level;
      const home = arrives ? copies.into[copy] : copies.out_of[copy];
      if (home < 0 || (!arrives && copies.source[copy] !== panel.level)) return;
      const [, top, , height] = rectangle(scene, panel, home, scale);
      if (height < 7 || top + height < panel.from || top > panel.to) return;
      const from = scale.x(scene.axis.at(panel.side, copies.start[copy])), to = scale.x(scene.axis.at(panel.side, copies.end[copy] + 1));
      if (to < panel.left || from > panel.right) return;
      const middle = top + (height > 2 * NAME_PX + 8 ? height - 7 : height / 2);
      pen.beginPath();
      pen.moveTo(from, middle);
      pen.lineTo(to, middle);
      pen.stroke();
      pen.beginPath();
      if (arrives) [[to - 6, middle - 4], [to, middle], [to - 6, middle + 4]].forEach((point) => pen.lineTo(...point));
      else [[to - 4, middle + 3], [to, middle - 4], [to + 4, middle + 3]].forEach((point) => pen.lineTo(...point));
      pen.fill();
    });
  }

  /** Ops as bars: over ops the height is their time, over time the width is, and the height is the share of compute. */
  function drawTimes(pen, scene, panel) {
    const { plan } = panel.side, ops = plan.op_ps.length;
    const { x } = scales(scene, panel);
    const [low, high] = scene.view.x, height = panel.to - panel.from;
    const [compute, lost] = [theme.colour("compute"), theme.colour("lost")];
    const bar = (from, to, share, colour) => {
      pen.fillStyle = colour;
      pen.fillRect(x(from), panel.to - share * height, x(to) - x(from), share * height);
    };
    const byTime = scene.axis.by === "time";
    for (let op = scene.axis.opAt(panel.side, low); op <= ops; op++) {
      const begin = scene.axis.at(panel.side, op), end = scene.axis.at(panel.side, op + 1);
      if (begin > high && !byTime) break;
      const stall = op < ops ? plan.stall_ps[op] : 0, own = op < ops ? plan.op_ps[op] - stall : plan.tail_ps;
      const working = op < ops ? Math.min(scene.document_.compute_ps[op], own) : 0;
      if (byTime) {
        if (begin - stall > high) break;
        bar(begin - stall, begin + own, own + stall > 0 ? 1 : 0, lost);
        if (own > 0) bar(begin, begin + own, working / own, compute);
      } else {
        bar(begin, end, (own + stall) / panel.top, lost);
        bar(begin, end, working / panel.top, compute);
      }
    }
  }

  /** Time of the slowest op in view, in ps, the same for all plans. */
  function slowestOp(scene) {
    const [low, high] = scene.view.x;
    let slowest = 1;
    for (const side of scene.sides) {
      for (let op = scene.axis.opAt(side, low); op <= side.plan.op_ps.length && scene.axis.at(side, op) < high; op++) {
        slowest = Math.max(slowest, side.plan.op_ps[op] ?? side.plan.tail_ps);
      }
    }
    return slowest * 1.05;
  }

  function drawFrame(pen, scene, panel) {
    const { x, y } = scales(scene, panel);
    const isLast = panel.kind === "time";
    pen.font = scene.font(12);
    pen.lineWidth = 1;
    pen.strokeStyle = theme.colour("line");
    pen.fillStyle = theme.colour("muted");
    const across = axis.ticksOf(scene.axis, scene.view.x, panel.right - panel.left);
    pen.textBaseline = "top";
    pen.textAlign = "center";
    for (const [at, text] of across.list) {
      const place = Math.round(x(at)) + 0.5;
      pen.beginPath();
      pen.moveTo(place, panel.from);
      pen.lineTo(place, panel.to);
      pen.stroke();
      if (isLast && place > panel.left + 10 && place < panel.right - 10) pen.fillText(text, place, panel.to + 5);
    }
    pen.textAlign = "right";
    if (isLast) pen.fillText(scene.axis.by === "time" ? `time, ${across.name}` : "op", panel.right, panel.to + 19);
    const [bottom, top] = upward(scene, panel);
    pen.textBaseline = "middle";
    const upwards = panel.kind === "level" ? axis.ticks(bottom, top, 4, unitOf(top)) : scene.axis.by === "time" ? { list: [[0, "0"], [panel.top, "100 %"]] } : axis.ticks(0, panel.top, 2, axis.timeUnit(panel.top));
    for (const [at, text] of upwards.list) {
      pen.beginPath();
      pen.moveTo(panel.left, Math.round(y(at)) + 0.5);
      pen.lineTo(panel.right, Math.round(y(at)) + 0.5);
      pen.stroke();
      pen.fillText(text, panel.left - 6, y(at));
    }
    pen.textAlign = "left";
  }

  function title(scene, panel) {
    const { side } = panel, most = axis.timeUnit(panel.top)[1];
    if (panel.kind === "time") return scene.axis.by === "time" ? "ops: share of each that is compute" : `time of each op, ${most}`;
    const level = scene.document_.levels[panel.level];
    const used = `at most ${bytes(side.plan.peak[panel.level])} of ${bytes(level.capacity)}`;
    return `${level.name}, ${unitOf(upward(scene, panel)[1])[1]}: ${used}`;
  }

  function drawTitle(pen, scene, panel) {
    pen.textBaseline = "alphabetic";
    pen.fillStyle = theme.colour("ink");
    pen.font = scene.font(14, 600);
    pen.fillText(panel.side.letter, panel.left, panel.from - 7);
    pen.font = scene.font(13);
    pen.fillText(fitting(pen, title(scene, panel), panel.right - panel.left - 18), panel.left + 18, panel.from - 7);
  }

  /** Draw a scene: document_, sides, axis, view (x, and y by key of a panel), panels, marked (a tensor or null), font. */
  function draw(pen, scene) {
    const slowest = slowestOp(scene);
    for (const panel of scene.panels) {
      if (panel.kind === "time") panel.top = slowest;
      drawTitle(pen, scene, panel);
      drawFrame(pen, scene, panel);
      pen.save();
      pen.beginPath();
      pen.rect(panel.left, panel.from, panel.right - panel.left, panel.to - panel.from);
      pen.clip();
      if (panel.kind === "level") {
        drawBlocks(pen, scene, panel);
        drawCopies(pen, scene, panel);
      } else drawTimes(pen, scene, panel);
      pen.restore();
    }
  }

  Memplace.picture = { panels, scales, rectangle, upward, draw };
})();
