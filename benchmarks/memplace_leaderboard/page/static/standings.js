"use strict";
// The ranking, and the tables behind it: rows that were run again with the rules, and declared ones below.
(() => {
  const { el, link, short, byId } = Memplace.dom;
  const { percent, count, seconds } = Memplace.text;
  const { state, scores, ranking } = Memplace;
  let tables = null;

  function name(row) {
    const { submission } = row;
    const shown = link(submission.link, short(submission.name, 30));
    const badges = [
      row.standing === "computed" ? el("span", { class: "badge", title: "a rule without a search, which the board plays itself" }, "rule") : null,
      submission.mine ? el("span", { class: "badge" }, "yours") : null,
      submission.nominal && !submission.computed ? el("span", { class: "badge", title: "searched under the cost arrays, measured nothing" }, "nominal") : null,
      submission.training ? el("span", { class: "badge", title: "trained before; declared" }, "trained") : null,
      submission.same_plans ? el("span", { class: "badge", title: submission.same_plans }, "same plans") : null,
      row.mark ? el("span", { class: "badge", title: row.mark }, "marked") : null,
    ];
    const by = submission.authors.length ? el("span", { class: "by" }, short(submission.authors.join(", "), 34)) : null;
    return el("span", { class: "who" }, el("span", {}, shown, ...badges.flatMap((each) => (each ? [" ", each] : []))), by);
  }

  /** How a row came about, and when. */
  function ground(row) {
    const { submission } = row;
    if (row.standing === "computed") return "played here";
    if (row.standing === "re-run") return el("span", { title: submission.rerun }, `${ranking.TICK} ${submission.rerun.split(", ")[0]}`);
    return submission.made ? `declared, ${submission.made}` : "declared";
  }

  const signed = (value) => value.toFixed(1).replace("-", "−");

  const COLUMNS = [
    { key: "name", title: "Submission", value: (row) => row.submission.name, cell: name },
    { key: "budget", title: "Budget", number: true, hint: "of its runs; where costs are public, what took no more processor time is in the same table", value: (row) => parseFloat(row.budget) || null, cell: (row) => Memplace.filters.budgetText(row.budget) },
    { key: "share", title: "Share of gain", number: true, hint: "mean over runs; rows are ranked by it", value: (row) => row.share, cell: (row) => percent(row.share) },
    { key: "interval", title: "95 % interval", number: true, hint: "stratified bootstrap over instances and seeds; sorts by its lower end", value: (row) => row.low, cell: (row) => (row.low === null ? "–" : `${signed(100 * row.low)} – ${signed(100 * row.high)}`) },
    { key: "iqm", title: "IQM", number: true, hint: "interquartile mean of the share", value: (row) => row.iqm, cell: (row) => percent(row.iqm) },
    { key: "missing", title: "Optimality gap", number: true, hint: "mean of what is missing to the best known plan's gain", value: (row) => row.optimality_gap, cell: (row) => percent(row.optimality_gap) },
    { key: "gap", title: "Gap to bound", number: true, hint: "geometric mean of latency over proven bound, less 1", value: (row) => row.gap, cell: (row) => percent(row.gap, 2) },
    { key: "solved", title: "Proven optimal", number: true, hint: "share of the runs whose plan no plan can beat", value: (row) => row.solved, cell: (row) => percent(row.solved, 0) },
    { key: "improvement", title: "Beats rules", number: true, hint: "probability of improvement over the strongest rule without a search", value: (row) => row.improvement, cell: (row) => percent(row.improvement, 0) },
    { key: "evaluations", title: "Plans tried", number: true, hint: "mean a run", value: (row) => row.evaluations, cell: (row) => count(row.evaluations) },
    { key: "seconds", title: "Seconds", number: true, hint: "mean a run: of processors where a judge measured them, else declared wall time; of rows that were run again, the rerun's where it was recorded", value: (row) => row.seconds, cell: (row) => seconds(row.seconds) },
    { key: "ground", title: "Run again", value: (row) => row.standing, cell: ground },
  ];

  function show(now) {
    if (!tables) {
      const onSort = (key, down) => state.change({ sort: key, order: down ? "down" : "up" });
      tables = ["standings", "declared"].map((each) => {
        const table = Memplace.table.sortable({ label: each === "declared" ? "Declared" : "Standings", columns: COLUMNS, onSort });
        byId(`${each}-table`).append(table.frame);
        return table;
      });
    }
    const rows = scores.standings(now);
    ranking.show(rows);
    const known = COLUMNS.some((column) => column.key === now.sort);
    const by = [known ? now.sort : "share", known ? now.order !== "up" : true];
    const declared = rows.filter((row) => row.standing === "declared");
    tables[0].draw(rows.filter((row) => row.standing !== "declared"), ...by);
    tables[1].draw(declared, ...by);
    const again = rows.filter((row) => row.standing === "re-run");
    byId("reruns").replaceChildren(...again.map((row) => el("li", {}, `${ranking.TICK} ${row.submission.name}: ${row.submission.rerun}`)));
    byId("declared").hidden = declared.length === 0;
    const track = scores.trackOf(now);
    byId("standings-lead").textContent = `${track.summary}. ${track.meaning}`;
    byId("standings-note").textContent =
      now.chip || now.family
        ? "Recomputed here for the chosen instances, without intervals and comparisons: those are given over all instances only."
        : "Share of gain: of what the best known plan gains over the baseline, which everybody has for free. Instances with less than 3 % to gain do not count.";
    byId("status").textContent = `${rows.length} ${rows.length === 1 ? "row" : "rows"} over ${scores.instances(now).size} instances`;
  }

  Memplace.standings = { show };
})();
