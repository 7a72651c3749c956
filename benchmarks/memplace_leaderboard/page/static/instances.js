"use strict";
// The table of instances, from which plans are opened.
(() => {
  const { el, short, byId } = Memplace.dom;
  const { time, percent, count } = Memplace.text;
  const { state, scores } = Memplace;
  let table = null;

  const column = (key, title, hint) => ({ key, title, hint, number: true, value: (row) => row[key], cell: (row) => time(row[key]) });
  const COLUMNS = [
    { key: "id", title: "Id", value: (row) => row.id, cell: (row) => el("a", { href: state.address({ view: "plan", id: row.id, a: "", b: "", x: "" }) }, short(row.id, 38)) },
    { key: "chip", title: "Chip", value: (row) => row.chip, cell: (row) => short(row.chip, 20) },
    { key: "family", title: "Family", value: (row) => row.family, cell: (row) => short(row.family, 20) },
    { key: "ops", title: "Ops", number: true, value: (row) => row.ops, cell: (row) => count(row.ops) },
    column("baseline_ps", "Baseline", "free for everybody"),
    column("cheap_ps", "Best cheap", "by rules that search nothing"),
    column("best_ps", "Best known"),
    column("bound_ps", "Bound", "proven: no plan is faster"),
    { key: "best", title: "Best run", hint: "sorts by its share of the gain", number: true, value: (row) => row.share, cell: (row) => (row.by ? el("span", {}, short(row.by, 16), ` ${percent(row.share)}`) : "–") },
  ];

  /** The fastest run of each instance. */
  function best(now) {
    const { cells } = window.memplaceData;
    const found = new Map();
    for (const group of scores.groups(now, { text: false })) {
      for (const run of group.runs) {
        const other = found.get(cells.id[run]);
        if (!other || cells.latency_ps[run] < cells.latency_ps[other.run]) found.set(cells.id[run], { run, by: group.submission.name });
      }
    }
    return found;
  }

  function show(now) {
    if (!table) {
      table = Memplace.table.sortable({ label: "Instances", columns: COLUMNS, onSort: (key, down) => state.change({ sort: key, order: down ? "down" : "up" }) });
      byId("instances-table").append(table.frame);
    }
    const runs = best(now);
    const rows = [...scores.instances(now).values()]
      .filter((row) => row.id.toLowerCase().includes(now.q.toLowerCase()))
      .map((row) => ({ ...row, by: runs.get(row.id)?.by, share: runs.has(row.id) ? window.memplaceData.cells.share[runs.get(row.id).run] : null }));
    const known = COLUMNS.some((each) => each.key === now.sort);
    table.draw(rows, known ? now.sort : "id", known && now.order !== "up");
    byId("status").textContent = `${rows.length} ${rows.length === 1 ? "instance" : "instances"}`;
  }

  Memplace.instances = { show };
})();
