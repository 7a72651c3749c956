"use strict";
// Tables whose columns sort: the order is part of the state, the head stays as it is when rows change.
(() => {
  const { el } = Memplace.dom;
  const { missing } = Memplace.text;

  function compare(a, b, down) {
    if (missing(a) || missing(b)) return missing(a) - missing(b); // what is not known comes last either way
    const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en");
    return down ? -order : order;
  }

  /**
   * A table in its own scrolling frame.
   *
   * `columns`: key, title, hint, number (aligned right, sorts down first), value(row) to sort by, cell(row) to show.
   * `onSort(key, down)` is called by the head's buttons; `draw(rows, key, down)` fills the body.
   */
  function sortable({ label, columns, onSort }) {
    const body = el("tbody");
    let current = { key: "", down: false };
    const heads = columns.map((column) => {
      const button = el("button", { type: "button", title: column.hint || null }, el("span", {}, column.title), el("span", { class: "arrow", "aria-hidden": "true" }));
      button.addEventListener("click", () => {
        const again = current.key === column.key;
        onSort(column.key, again ? !current.down : Boolean(column.number));
      });
      return el("th", { scope: "col", class: column.number ? "number" : null }, button);
    });
    const table = el("table", {}, el("caption", { class: "unseen" }, label), el("thead", {}, el("tr", {}, ...heads)), body);
    const frame = el("div", { class: "scroll", role: "region", "aria-label": `${label}, scrolls sideways`, tabIndex: 0 }, table);

    function draw(rows, key, down, limit = Infinity) {
      current = { key, down };
      columns.forEach((column, index) => {
        const sorted = column.key === key;
        heads[index].setAttribute("aria-sort", sorted ? (down ? "descending" : "ascending") : "none");
        heads[index].querySelector(".arrow").textContent = sorted ? (down ? "▼" : "▲") : "";
      });
      const by = columns.find((column) => column.key === key);
      const order = by ? [...rows].sort((a, b) => compare(by.value(a), by.value(b), down)) : rows;
      body.replaceChildren(
        ...order.slice(0, limit).map((row, place) =>
          el(
            "tr",
            { class: [row.standing === "computed" ? "reference" : "", row.submission?.mine ? "mine" : ""].join(" ").trim() || null },
            ...columns.map((column, index) =>
              el(index === 0 ? "th" : "td", { scope: index === 0 ? "row" : null, class: column.number ? "number" : null }, column.cell(row, place)),
            ),
          ),
        ),
      );
    }
    return { frame, draw };
  }

  Memplace.table = { sortable };
})();
