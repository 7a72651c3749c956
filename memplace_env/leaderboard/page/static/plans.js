"use strict";
// The view of two plans of one environment.
(() => {
  const { el, byId, cut } = Memplace.dom;
  const { time, bytes, percent, count, missing } = Memplace.text;
  const { state, scores } = Memplace;
  const documents = new Map();
  const loading = new Map();
  let shown = null; // what is drawn: panels, margin, document_, and the state it was drawn for
  let selects = null;

  window.memplacePlans = (id, document_) => documents.set(id, document_);

  /** The document of an environment, by a script: files cannot be fetched from files. */
  function load(id) {
    if (!loading.has(id)) {
      const script = el("script", { src: `plans/${encodeURIComponent(id)}.js` });
      loading.set(id, new Promise((resolve, reject) => {
        script.onload = () => (documents.has(id) ? resolve(documents.get(id)) : reject(new Error("no plans")));
        script.onerror = () => {
          loading.delete(id);
          reject(new Error("no plans"));
        };
      }));
      document.head.append(script);
    }
    return loading.get(id);
  }

  /** Runs of an environment whose plans are on the page. */
  function runsOf(now) {
    const { cells, submissions } = window.memplaceData;
    const found = [];
    cells.id.forEach((id, run) => {
      const submission = submissions[cells.submission[run]];
      if (id !== now.id || !cells.plan[run] || submission.suite !== now.suite || submission.track !== now.track) return;
      found.push({
        reference: submission.computed,
        key: `${submission.name}~${cells.budget[run]}~${cells.seed[run]}`, submission, budget: cells.budget[run], seed: cells.seed[run],
        latency: cells.latency_ps[run], share: cells.share[run], plan: cells.plan[run],
      });
    });
    return found;
  }

  function build() {
    selects = Object.fromEntries(["a", "b"].map((key) => [key, el("select", { id: `plan-${key}` })]));
    for (const key of ["a", "b"]) {
      byId("plan-choice").append(el("div", { class: "field wide" }, el("label", { for: `plan-${key}` }, `Plan ${key.toUpperCase()}`), selects[key]));
      selects[key].addEventListener("change", () => state.change({ [key]: selects[key].value }));
    }
    const swap = el("button", { type: "button" }, "Swap A and B");
    swap.addEventListener("click", () => state.change({ a: selects.b.value, b: selects.a.value }));
    byId("plan-choice").append(el("div", { class: "field end" }, swap));
    const buttons = [["Zoom in", 0.5, 0], ["Zoom out", 2, 0], ["Earlier", 1, -0.25], ["Later", 1, 0.25], ["Whole program", Infinity, 0]];
    for (const [text, factor, shift] of buttons) {
      const button = el("button", { type: "button" }, text);
      button.addEventListener("click", () => zoom(factor, shift));
      byId("plan-zoom").append(button);
    }
    Memplace.hover.follow(byId("picture"), byId("tip"), () => shown);
  }

  const whole = () => [0, shown.document_.ops.length];

  function zoom(factor, shift) {
    if (!shown) return;
    const [low, high] = byId("picture").layout.xaxis.range;
    const [least, most] = whole();
    const width = Math.min((high - low) * factor, most - least);
    const start = Math.max(least, Math.min((low + high - width) / 2 + shift * width, most - width));
    state.change({ x: width >= most - least ? "" : `${start.toFixed(2)}_${(start + width).toFixed(2)}` }, true);
  }

  /** The range of ops that the state asks for. */
  function rangeOf(now, ops) {
    const [low, high] = now.x.split("_").map(Number);
    return Number.isFinite(low) && Number.isFinite(high) && low < high ? [low, high] : [0, ops];
  }

  function fill(select, runs, chosen) {
    const groups = new Map();
    for (const run of runs) {
      if (!groups.has(run.submission.name)) groups.set(run.submission.name, []);
      groups.get(run.submission.name).push(el("option", { value: run.key }, cut(`${run.submission.name}, ${Memplace.filters.budgetText(run.budget)}, seed ${run.seed}: ${time(run.latency)}`, 70)));
    }
    select.replaceChildren(...[...groups].map(([name, options]) => el("optgroup", { label: cut(name, 40) }, ...options)));
    select.value = chosen.key;
  }

  function summary(document_, a, b, instance) {
    const [first, second] = [document_.plans[a.plan], document_.plans[b.plan]];
    const gap = (run) => (instance.bound_ps ? run.latency / instance.bound_ps - 1 : null);
    const row = (name, show, x, y, difference) =>
      el("tr", {}, el("th", { scope: "row" }, name), ...[show(x), show(y), difference ?? change(x, y)].map((text) => el("td", { class: "number" }, text)));
    const change = (x, y) => (missing(x) || missing(y) || (!x && !y) ? "–" : x === y ? "same" : x && Math.abs(y / x - 1) < 0.0005 ? "nearly the same" : x ? `${y >= x ? "+" : "−"}${Math.abs(100 * (y / x - 1)).toFixed(1)} %` : "new");
    const points = (x, y) => (missing(x) || missing(y) ? "–" : `${y >= x ? "+" : "−"}${Math.abs(100 * (y - x)).toFixed(1)} points`);
    const more = (difference) => (difference === 0 ? "same" : `${difference > 0 ? "+" : "−"}${Math.abs(difference)}`);
    const backing = document_.levels.length - 1;
    const wait = (plan) => plan.stall_ps + plan.tail_ps;
    const rows = [
      row("Latency", time, a.latency, b.latency),
      row("Share of the gain", percent, a.share, b.share, points(a.share, b.share)),
      row("Gap to bound", (value) => percent(value, 2), gap(a), gap(b), points(gap(a), gap(b))),
      ...document_.levels.map((level, index) => row(`Moved at ${level.name}`, bytes, first.moved[index], second.moved[index])),
      ...document_.levels.slice(0, backing).map((level, index) => row(`Most in ${level.name}`, bytes, first.peak[index], second.peak[index])),
      row("Copies", count, first.copies.tensor.length, second.copies.tensor.length, more(second.copies.tensor.length - first.copies.tensor.length)),
      row("Waiting for copies", time, wait(first), wait(second)),
    ];
    const head = ["", "A", "B", "B against A"].map((text, index) => el(index ? "th" : "td", { scope: index ? "col" : null, class: index ? "number" : null }, text));
    return el("table", { class: "compact" }, el("caption", { class: "unseen" }, "What differs"), el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
  }

  function legend() {
    const kinds = window.memplaceData.kinds.map((kind) => [kind.name, kind.colour]);
    const times = [["op: compute", Memplace.theme.colour("compute")], ["op: lost to memory", Memplace.theme.colour("lost")]];
    const item = ([name, colour]) => {
      const patch = el("span", { class: "patch", "aria-hidden": "true" });
      patch.style.background = colour;
      return el("li", {}, patch, name);
    };
    const mark = (sign, name) => el("li", {}, el("span", { "aria-hidden": "true" }, sign), name);
    byId("plan-legend").replaceChildren(...kinds.map(item), mark("─▶", "copied in"), mark("─▲", "written back"), ...times.map(item));
  }

  function blockTable(document_, sides) {
    const rows = sides.flatMap((side) => side.plan.blocks.tensor.map((tensor, block) => ({ side, tensor, block })));
    rows.sort((x, y) => y.side.plan.blocks.bytes[y.block] - x.side.plan.blocks.bytes[x.block]);
    const heads = ["Plan", "Tensor", "Bytes", "Level", "From op", "To op"];
    const body = rows.slice(0, 60).map(({ side, tensor, block }) => {
      const { level, start, end, bytes: size, part } = side.plan.blocks;
      const name = cut(document_.tensors[tensor], 60) + (part[block] && `, ${part[block]}`);
      const cells = [side.letter, name, bytes(size[block]), document_.levels[level[block]].name, String(start[block]), String(end[block])];
      return el("tr", {}, ...cells.map((text, index) => el("td", { class: [2, 4, 5].includes(index) ? "number" : null }, text)));
    });
    const table = el("table", { class: "compact" }, el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, ...body));
    byId("plan-blocks-table").replaceChildren(el("div", { class: "scroll", role: "region", "aria-label": "Largest blocks", tabIndex: 0 }, table));
  }

  async function draw(now, instance, document_, a, b) {
    const sides = [a, b].map((run, index) => ({ letter: "AB"[index], plan: document_.plans[run.plan], run }));
    const range = rangeOf(now, document_.ops.length);
    const drawn = [now.id, a.key, b.key, Memplace.theme.isDark()].join("\n");
    const frame = byId("picture");
    if (shown?.drawn === drawn) {
      const [low, high] = frame.layout.xaxis.range;
      if (Math.abs(low - range[0]) > 0.01 || Math.abs(high - range[1]) > 0.01) await Plotly.relayout(frame, { "xaxis.range": range });
      return;
    }
    byId("plan-summary").replaceChildren(summary(document_, a, b, instance));
    legend();
    blockTable(document_, sides);
    const { traces, layout, panels, margin } = Memplace.picture.figure(document_, sides, range);
    const fresh = !shown;
    shown = { drawn, document_, panels, margin };
    await Plotly.react(frame, traces, layout, { ...Memplace.charts.CONFIG });
    if (!fresh) return;
    frame.on("plotly_relayout", (event) => {
      if (event["xaxis.range[0]"] === undefined) return;
      const [low, high] = frame.layout.xaxis.range;
      state.change({ x: `${low.toFixed(2)}_${high.toFixed(2)}` }, true);
    });
    frame.addEventListener("dblclick", () => zoom(Infinity, 0));
  }

  function say(text) {
    byId("plan-message").textContent = text;
    byId("plan-body").hidden = Boolean(text);
  }

  async function show(now) {
    if (!selects) build();
    const instance = scores.trackOf(now).instances.find((each) => each.id === now.id);
    const runs = instance ? runsOf(now) : [];
    byId("h-plan").textContent = instance ? instance.id : "Plans";
    byId("plan-lead").textContent = instance
      ? `${instance.family} on ${instance.chip}, ${count(instance.ops)} ops. Baseline ${time(instance.baseline_ps)}, best known ${time(instance.best_ps)}, bound ${time(instance.bound_ps)}.${scores.trackOf(now).noise === null ? "" : " Latencies are the black box's; times of ops are those of the cost arrays."}`
      : "";
    byId("plan-choice").hidden = runs.length === 0;
    if (runs.length === 0) return say(instance ? "Nobody's plans of this id are on the page." : "Choose an id under Instances to see its plans.");
    const fastest = runs.reduce((best, run) => (run.latency < best.latency ? run : best));
    const a = runs.find((run) => run.key === now.a) || runs.find((run) => run.reference && run !== fastest) || runs[0];
    const b = runs.find((run) => run.key === now.b) || fastest;
    fill(selects.a, runs, a);
    fill(selects.b, runs, b);
    if (!documents.has(now.id)) say("Loading the plans …");
    try {
      const document_ = await load(now.id);
      const latest = state.read();
      if (latest.view !== "plan" || latest.id !== now.id) return undefined;
      say("");
      await draw(now, instance, document_, a, b);
    } catch (error) {
      say(error.message === "no plans" ? "The file with this id's plans is missing beside the page." : `The plans cannot be drawn: ${error.message}`);
    }
    return undefined;
  }

  Memplace.plans = { show };
})();
