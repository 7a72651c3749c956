"use strict";
// Two plans as one figure: for each, its fast levels as blocks over ops and addresses, and below them the ops' times.
(() => {
  const { plain } = Memplace.dom;
  const { bytes } = Memplace.text;
  const { theme } = Memplace;
  const MARGIN = { l: 58, r: 14, t: 34, b: 46 };
  const LEVEL_PX = 190, TIME_PX = 74, GAP_PX = 40, BETWEEN_PX = 62;

  const unitOf = (most) => [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]].find(([size]) => most >= size) || [1, "B"];
  const timeUnit = (most) => [[1e12, "s"], [1e9, "ms"], [1e6, "µs"]].find(([size]) => most >= size) || [1e3, "ns"];

  /** The panels from top to bottom, with what each shows: `blocks` are indices into the plan's columns. */
  function panels(document_, sides) {
    const backing = document_.levels.length - 1;
    const used = document_.levels.map((_, level) => level).filter((level) => level < backing && sides.some((side) => side.plan.blocks.level.includes(level)));
    const levels = used.length ? used : [0];
    const tops = new Map(levels.map((level) => [level, 0]));
    for (const { plan } of sides) {
      const { level, offset, bytes: size } = plan.blocks;
      level.forEach((each, block) => tops.set(each, Math.max(tops.get(each) ?? 0, offset[block] + size[block])));
    }
    const slowest = Math.max(...sides.flatMap((side) => side.plan.op_ps), 1);
    const found = [];
    for (const side of sides) {
      for (const level of levels) {
        const blocks = side.plan.blocks.level.flatMap((each, block) => (each === level ? [block] : []));
        const [size, unit] = unitOf(tops.get(level) || document_.levels[level].capacity);
        found.push({ side, kind: "level", level, blocks, size, unit, top: (tops.get(level) || size) * 1.02 / size, px: LEVEL_PX });
      }
      const [size, unit] = timeUnit(slowest);
      found.push({ side, kind: "time", size, unit, top: slowest * 1.05 / size, px: TIME_PX });
    }
    return place(found);
  }

  /** Give each panel its axis and its place, in pixels from the top of the plotting area. */
  function place(found) {
    let down = 0;
    found.forEach((panel, index) => {
      if (index) down += panel.side === found[index - 1].side ? GAP_PX : BETWEEN_PX;
      panel.from = down;
      down += panel.px;
      panel.to = down;
      panel.axis = index ? `y${index + 1}` : "y";
    });
    const height = down;
    for (const panel of found) panel.domain = [Math.max(0, 1 - panel.to / height), 1 - panel.from / height];
    return { list: found, height };
  }

  /** Rectangles of one kind as one filled line, broken between them. */
  function rectangles(panel, kind, number) {
    const { offset, start, end, bytes: size, kind: kinds } = panel.side.plan.blocks;
    const x = [], y = [];
    for (const block of panel.blocks) {
      if (kinds[block] !== number) continue;
      const low = offset[block] / panel.size, high = low + size[block] / panel.size;
      x.push(start[block], end[block] + 1, end[block] + 1, start[block], start[block], null);
      y.push(low, low, high, high, low, null);
    }
    return x.length && {
      type: "scatter", mode: "lines", x, y, yaxis: panel.axis, fill: "toself", fillcolor: kind.colour, hoverinfo: "skip", name: kind.name,
      line: { color: theme.colour("page"), width: x.length > 3000 ? 0.3 : 0.8 },
    };
  }

  /** Copies: a line during the ops in which they may run, a mark where they end. */
  function copies(panel) {
    const { blocks, copies: moved } = panel.side.plan;
    const lines = { x: [], y: [] }, marks = { x: [], y: [], symbol: [] };
    moved.target.forEach((target, copy) => {
      const arrives = target === panel.level;
      if (!arrives && moved.source[copy] !== panel.level) return;
      const home = arrives ? moved.into[copy] : moved.out_of[copy];
      if (home < 0) return;
      const middle = (blocks.offset[home] + blocks.bytes[home] / 2) / panel.size;
      lines.x.push(moved.start[copy], moved.end[copy] + 1, null);
      lines.y.push(middle, middle, null);
      marks.x.push(moved.end[copy] + 1);
      marks.y.push(middle);
      marks.symbol.push(arrives ? "triangle-right" : "triangle-up");
    });
    if (!marks.x.length) return [];
    const colour = theme.colour("mark");
    const common = { type: "scatter", yaxis: panel.axis, hoverinfo: "skip" };
    return [
      { ...common, mode: "lines", x: lines.x, y: lines.y, line: { color: colour, width: 1.2 }, name: "copy" },
      { ...common, mode: "markers", x: marks.x, y: marks.y, marker: { color: colour, size: 7, symbol: marks.symbol, line: { color: theme.colour("page"), width: 1 } }, name: "copy ends" },
    ];
  }

  function times(document_, panel) {
    const stairs = (values, colour, name) => ({
      type: "scatter", mode: "lines", yaxis: panel.axis, hoverinfo: "skip", name, fill: "tozeroy", fillcolor: colour,
      line: { shape: "hv", width: 0, color: colour }, x: [...values.keys(), values.length], y: [...values, values[values.length - 1]].map((ps) => ps / panel.size),
    });
    return [stairs(panel.side.plan.op_ps, theme.colour("lost"), "lost to memory"), stairs(document_.compute_ps, theme.colour("compute"), "compute")];
  }

  function title(document_, panel) {
    const { side } = panel;
    const name = `<b>${side.letter}</b>  `;
    if (panel.kind === "time") return `${name}time of each op, ${panel.unit}`;
    const level = document_.levels[panel.level];
    return `${name}${plain(level.name)}, ${panel.unit}: at most ${bytes(side.plan.peak[panel.level])} of ${bytes(level.capacity)}`;
  }

  /** Traces and layout for Plotly, and the panels for whoever looks up what is under the pointer. */
  function figure(document_, sides, range) {
    const { list, height } = panels(document_, sides);
    const traces = [], axes = {}, annotations = [], first = {};
    for (const panel of list) {
      if (panel.kind === "level") {
        traces.push(...window.memplaceData.kinds.map((kind, number) => rectangles(panel, kind, number)).filter(Boolean), ...copies(panel));
      } else traces.push(...times(document_, panel));
      const same = `${panel.kind}${panel.level}`;
      axes[panel.axis.replace("y", "yaxis")] = {
        ...Memplace.charts.axis(""), title: undefined, automargin: false, domain: panel.domain, range: [0, panel.top], nticks: 5,
        anchor: "x", fixedrange: panel.kind === "time", matches: first[same],
      };
      first[same] ??= panel.axis;
      annotations.push({ text: title(document_, panel), xref: "paper", yref: "paper", x: 0, y: panel.domain[1], xanchor: "left", yanchor: "bottom", yshift: 3, showarrow: false, font: { size: 13 } });
    }
    const coarse = window.matchMedia("(pointer: coarse)").matches;
    const layout = Memplace.charts.layout({
      ...axes, annotations, margin: MARGIN, height: height + MARGIN.t + MARGIN.b, hovermode: false, dragmode: coarse ? false : "zoom",
      xaxis: { ...Memplace.charts.axis("op"), automargin: false, fixedrange: coarse, range, anchor: list[list.length - 1].axis },
    });
    return { traces, layout, panels: list, margin: MARGIN };
  }

  Memplace.picture = { figure };
})();
