"use strict";
// The view of two plans of one environment.
(() => {
  const { el, byId, cut } = Memplace.dom;
  const { time, percent, count, missing } = Memplace.text;
  const { state, scores, planTables } = Memplace;
  const documents = new Map();
  const loading = new Map();
  let selects = null, viewer = null;

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
    viewer = Memplace.viewer.create(byId("plan-viewer"), (x, by) => state.change({ x, by: by === "op" ? by : "" }, true));
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

  /** Rows about runs, above those about their plans. */
  function aboutRuns(a, b, instance) {
    const gap = (run) => (instance.bound_ps ? run.latency / instance.bound_ps - 1 : null);
    const points = (x, y) => (missing(x) || missing(y) ? "–" : `${y >= x ? "+" : "−"}${Math.abs(100 * (y - x)).toFixed(1)} points`);
    const row = (name, show, x, y, difference) => [name, [show(x), show(y), difference(x, y)]];
    return [
      row("Latency", time, a.latency, b.latency, planTables.change),
      row("Share of the gain", percent, a.share, b.share, points),
      row("Gap to bound", (value) => percent(value, 2), gap(a), gap(b), points),
    ];
  }

  function draw(now, instance, document_, a, b) {
    const sides = [a, b].map((run, index) => ({ letter: "AB"[index], plan: document_.plans[run.plan] }));
    byId("plan-summary").replaceChildren(planTables.summary(document_, sides, aboutRuns(a, b, instance)));
    byId("plan-legend").replaceChildren(...planTables.legend(document_, sides));
    byId("plan-blocks-table").replaceChildren(planTables.largestBlocks(document_, sides));
    viewer.show(document_, sides, now.x, now.by || "time");
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
      draw(now, instance, document_, a, b);
    } catch (error) {
      say(error.message === "no plans" ? "The file with this id's plans is missing beside the page." : `The plans cannot be drawn: ${error.message}`);
    }
    return undefined;
  }

  Memplace.plans = { show };
})();
