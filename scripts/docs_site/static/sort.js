"use strict";
// A click on a head sorts its table by that column; a second click turns the order round.
document.querySelectorAll("article table th").forEach((head) => {
  head.tabIndex = 0;
  const sort = () => {
    const body = head.closest("table").tBodies[0];
    const down = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const text = (row) => row.cells[head.cellIndex].textContent.trim();
    const unit = (row) => 1024 ** ["KiB", "MiB", "GiB"].findIndex((name) => text(row).endsWith(name));
    const number = (row) => parseFloat(text(row).replace(/,/g, "")) * unit(row);
    const value = (row) => (Number.isNaN(number(row)) ? Infinity : number(row)); // words come behind numbers
    const compare = (a, b) => value(a) - value(b) || text(a).localeCompare(text(b), "en");
    head.parentNode.childNodes.forEach((other) => other.removeAttribute?.("aria-sort"));
    head.setAttribute("aria-sort", down > 0 ? "ascending" : "descending");
    body.append(...[...body.rows].sort((a, b) => down * compare(a, b)));
  };
  head.onclick = sort;
  head.onkeydown = (event) => event.key === "Enter" && sort();
});
