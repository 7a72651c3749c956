"use strict";
// The ranking that the page opens with: a bar for each row, its interval across it, declared rows below the others.
(() => {
  const { el, link, short, byId } = Memplace.dom;
  const { percent } = Memplace.text;
  const MOST = 12; // bars of each kind; the tables have all
  const TICK = "✓";

  const clipped = (share) => 100 * Math.max(0, Math.min(1, share));

  /** A bar of a share, with the interval as a line across its end. */
  function bar(row) {
    const fill = el("span", { class: "fill" });
    fill.style.width = `${clipped(row.share ?? 0)}%`;
    const parts = [fill];
    if (row.low !== null && row.high !== null) {
      const whisker = el("span", { class: "whisker" });
      whisker.style.left = `${clipped(row.low)}%`;
      whisker.style.width = `${clipped(row.high) - clipped(row.low)}%`;
      parts.push(whisker);
    }
    return el("span", { class: "track", "aria-hidden": "true" }, ...parts);
  }

  const interval = (row) => (row.low === null ? "" : `95 % interval ${percent(row.low)} to ${percent(row.high)}`);

  function item(row, rank) {
    const { submission } = row;
    const title = [row.standing === "re-run" ? submission.rerun : "", interval(row)].filter(Boolean).join("; ");
    return el(
      "li",
      { class: [row.standing, submission.mine ? "mine" : ""].join(" ").trim(), title },
      el("span", { class: "rank" }, rank === null ? "" : `${rank}.`),
      el("span", { class: "name" }, row.standing === "re-run" ? `${TICK} ` : "", link(submission.link, short(submission.name, 28)), submission.mine ? " (yours)" : ""),
      bar(row),
      el("span", { class: "value" }, percent(row.share)),
      el("span", { class: "unseen" }, interval(row)),
    );
  }

  /** Rows in two lists: those that were run again, ranked, with the rules among them; and those that are declared. */
  function show(rows) {
    const scored = rows.filter((row) => row.share !== null).sort((a, b) => b.share - a.share);
    const above = scored.filter((row) => row.standing !== "declared");
    const below = scored.filter((row) => row.standing === "declared");
    let rank = 0;
    const list = (some) => el("ol", { class: "ranking" }, ...some.slice(0, MOST).map((row) => item(row, row.standing === "re-run" ? (rank += 1) : null)));
    const parts = above.length ? [el("h3", {}, "Run again by those who keep this page, and rules"), list(above)] : [];
    if (below.length) parts.push(el("h3", {}, "Declared by their authors only"), list(below));
    byId("ranking").replaceChildren(...parts);
  }

  Memplace.ranking = { show, TICK };
})();
