"use strict";
// The table of submissions.
(() => {
  const { el, link, short, byId } = Memplace.dom;
  const { percent, count, seconds } = Memplace.text;
  const { state, scores } = Memplace;
  let table = null;

  function name(row) {
    const { submission } = row;
    const shown = link(submission.link, short(submission.name, 30));
    const badges = [
      row.reference ? el("span", { class: "badge", title: "there to compare with: it decides itself what it spends" }, "reference") : null,
      submission.nominal ? el("span", { class: "badge", title: "searched under the cost arrays, measured nothing" }, "nominal") : null,
      submission.training ? el("span", { class: "badge", title: "trained before; declared" }, "trained") : null,
    ];
    const by = submission.authors.length ? el("span", { class: "by" }, short(submission.authors.join(", "), 34)) : null;
    return el("span", { class: "who" }, el("span", {}, shown, ...badges.flatMap((each) => (each ? [" ", each] : []))), by);
  }

  function bar(share) {
    const width = Math.max(0, Math.min(1, share ?? 0)) * 100;
    const fill = el("span", { class: "bar", "aria-hidden": "true" }, el("span"));
    fill.firstChild.style.width = `${width}%`;
    return fill;
  }

  const signed = (value) => value.toFixed(1).replace("-", "−");

  const COLUMNS = [
    { key: "name", title: "Submission", value: (row) => row.submission.name, cell: name },
    { key: "budget", title: "Budget", number: true, value: (row) => parseFloat(row.budget) || null, cell: (row) => Memplace.filters.budgetText(row.budget) },
    { key: "share", title: "Share of gain", number: true, hint: "interquartile mean over runs", value: (row) => row.share, cell: (row) => el("span", { class: "scored" }, bar(row.share), el("span", {}, percent(row.share))) },
    { key: "interval", title: "95 % interval", number: true, hint: "stratified bootstrap; sorts by its lower end", value: (row) => row.low, cell: (row) => (row.low === null ? "–" : `${signed(100 * row.low)} – ${signed(100 * row.high)}`) },
    { key: "gap", title: "Gap to bound", number: true, hint: "geometric mean of latency over proven bound, less 1", value: (row) => row.gap, cell: (row) => percent(row.gap, 2) },
    { key: "solved", title: "Proven optimal", number: true, hint: "share of the runs whose plan no plan can beat", value: (row) => row.solved, cell: (row) => percent(row.solved, 0) },
    { key: "improvement", title: "Beats cheap", number: true, hint: "probability of improvement over the strongest row that costs no search", value: (row) => row.improvement, cell: (row) => percent(row.improvement, 0) },
    { key: "evaluations", title: "Plans tried", number: true, hint: "mean a run", value: (row) => row.evaluations, cell: (row) => count(row.evaluations) },
    { key: "seconds", title: "Seconds (declared)", number: true, hint: "mean a run; nobody can check it", value: (row) => row.seconds, cell: (row) => seconds(row.seconds) },
  ];

  function show(now) {
    if (!table) {
      table = Memplace.table.sortable({ label: "Standings", columns: COLUMNS, onSort: (key, down) => state.change({ sort: key, order: down ? "down" : "up" }) });
      byId("standings-table").append(table.frame);
    }
    const rows = scores.standings(now);
    const known = COLUMNS.some((column) => column.key === now.sort);
    table.draw(rows, known ? now.sort : "share", known ? now.order !== "up" : true);
    const track = scores.trackOf(now);
    byId("standings-lead").textContent = track.summary;
    byId("standings-note").textContent =
      now.chip || now.family
        ? "Recomputed here for the chosen instances, without intervals and comparisons: those are given over all instances only."
        : "Share of gain: of what the best known plan gains over the baseline, which everybody has for free. Instances with less than 3 % to gain do not count.";
    byId("status").textContent = `${rows.length} ${rows.length === 1 ? "row" : "rows"} over ${scores.instances(now).size} instances`;
  }

  Memplace.standings = { show };
})();
