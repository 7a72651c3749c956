"use strict";
// Tables beside the picture: what differs between two plans, their largest blocks, and the legend.
(() => {
  const { el, cut } = Memplace.dom;
  const { time, bytes, count, missing } = Memplace.text;

  const change = (x, y) => (missing(x) || missing(y) || (!x && !y) ? "–" : x === y ? "same" : x && Math.abs(y / x - 1) < 0.0005 ? "nearly the same" : x ? `${y >= x ? "+" : "−"}${Math.abs(100 * (y / x - 1)).toFixed(1)} %` : "new");
  const more = (x, y) => (x === y ? "same" : `${y > x ? "+" : "−"}${Math.abs(y - x)}`);
  const heading = (text, number) => el(text ? "th" : "td", { scope: text ? "col" : null, class: number ? "number" : null }, text);

  /** The table of one plan, or of two and what differs; `first` are rows before the plans' own: name, texts. */
  function summary(document_, sides, first = []) {
    const rows = [...first];
    const add = (name, show, value, differ = change) => {
      const values = sides.map(({ plan }) => value(plan));
      rows.push([name, [...values.map(show), ...(sides.length === 2 ? [differ(...values)] : [])]]);
    };
    const sum = (list) => list.reduce((total, each) => total + each, 0);
    if (!first.length) add("Latency", time, (plan) => plan.latency_ps);
    document_.levels.forEach((level, index) => add(`Moved at ${level.name}`, bytes, (plan) => plan.moved[index]));
    document_.levels.slice(0, -1).forEach((level, index) => add(`Most in ${level.name}`, bytes, (plan) => plan.peak[index]));
    add("Copies", count, (plan) => plan.copies.tensor.length, more);
    add("Waiting for copies", time, (plan) => sum(plan.stall_ps) + plan.tail_ps);
    const heads = ["", ...sides.map((side) => side.letter), ...(sides.length === 2 ? [`${sides[1].letter} against ${sides[0].letter}`] : [])];
    const body = rows.map(([name, texts]) => el("tr", {}, el("th", { scope: "row" }, name), ...texts.map((text) => el("td", { class: "number" }, text))));
    return el("table", { class: "compact" }, el("caption", { class: "unseen" }, "What differs"), el("thead", {}, el("tr", {}, ...heads.map((text, index) => heading(text, index > 0)))), el("tbody", {}, ...body));
  }

  /** Items of the legend, for the kinds of blocks that occur. */
  function legend(document_, sides) {
    const item = ([name, colour]) => {
      const patch = el("span", { class: "patch", "aria-hidden": "true" });
      patch.style.background = colour;
      return el("li", {}, patch, name);
    };
    const mark = (sign, name) => el("li", {}, el("span", { "aria-hidden": "true" }, sign), name);
    const kinds = document_.kinds.filter((_, kind) => sides.some((side) => side.plan.blocks.kind.includes(kind)));
    const copies = sides.some((side) => side.plan.copies.tensor.length) ? [mark("─▶", "copied in"), mark("─▲", "written back")] : [];
    return [...kinds.map((kind) => item([kind.name, kind.colour])), ...copies, item(["op: compute", "var(--compute)"]), item(["op: lost to memory", "var(--lost)"])];
  }

  /** The largest blocks of the plans as a table. */
  function largestBlocks(document_, sides) {
    const rows = sides.flatMap((side) => side.plan.blocks.tensor.map((tensor, block) => ({ side, tensor, block })));
    rows.sort((x, y) => y.side.plan.blocks.bytes[y.block] - x.side.plan.blocks.bytes[x.block]);
    const heads = ["Plan", "Tensor", "Bytes", "Level", "From op", "To op", "Saves"];
    const isNumber = (index) => [2, 4, 5, 6].includes(index);
    const body = rows.slice(0, 60).map(({ side, tensor, block }) => {
      const { level, start, end, bytes: size, part, saved_ps: worth } = side.plan.blocks;
      const name = cut(document_.tensors[tensor], 60) + (part[block] && `, ${part[block]}`);
      const cells = [side.letter, name, bytes(size[block]), document_.levels[level[block]].name, String(start[block]), String(end[block]), time(Memplace.axis.hasTimes(side) ? worth[block] : null)];
      return el("tr", {}, ...cells.map((text, index) => el("td", { class: isNumber(index) ? "number" : null }, text)));
    });
    const table = el("table", { class: "compact" }, el("thead", {}, el("tr", {}, ...heads.map((text, index) => heading(text, isNumber(index))))), el("tbody", {}, ...body));
    return el("div", { class: "scroll", role: "region", "aria-label": "Largest blocks", tabIndex: 0 }, table);
  }

  Memplace.planTables = { summary, legend, largestBlocks, change };
})();
