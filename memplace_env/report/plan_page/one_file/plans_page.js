"use strict";
// The page of a task's plans: which two are drawn, and what stands around them.
(() => {
  const { el, byId, cut } = Memplace.dom;
  const { time } = Memplace.text;
  const { theme, planTables } = Memplace;
  const data = JSON.parse(byId("data").textContent);
  const { document: document_, plans } = data;
  const NONE = "none";
  const view = { x: "", by: "time" };
  const viewer = Memplace.viewer.create(byId("plan-viewer"), (x, by) => Object.assign(view, { x, by }));
  const selects = ["A", "B"].map(choice);

  function choice(letter, index) {
    const options = plans.map(({ name, key }, number) => el("option", { value: String(number) }, cut(`${name}: ${time(document_.plans[key].latency_ps)}`, 70)));
    const select = el("select", { id: `plan-${letter}` }, ...options, index ? el("option", { value: NONE }, "no second plan") : null);
    select.value = String(data.shown[index]);
    select.addEventListener("change", draw);
    byId("plan-choice").append(el("div", { class: "field wide" }, el("label", { for: select.id }, `Plan ${letter}`), select));
    return select;
  }

  function draw() {
    const chosen = selects.map((select) => select.value).filter((value) => value !== NONE);
    const sides = chosen.map((number, index) => ({ letter: "AB"[index], plan: document_.plans[plans[number].key] }));
    byId("plan-summary").replaceChildren(planTables.summary(document_, sides));
    byId("plan-legend").replaceChildren(...planTables.legend(document_, sides));
    byId("plan-blocks-table").replaceChildren(planTables.largestBlocks(document_, sides));
    viewer.show(document_, sides, view.x, view.by);
  }

  function label() {
    byId("theme").textContent = theme.isDark() ? "Light" : "Dark";
    byId("theme").setAttribute("aria-label", theme.isDark() ? "Use light colours" : "Use dark colours");
  }

  document.title = data.title;
  byId("title").textContent = data.title;
  byId("lead").textContent = data.lead;
  byId("footer").textContent = `Made by memplace ${data.version}.`;
  byId("theme").addEventListener("click", theme.toggle);
  theme.onChange(label);
  label();
  draw();
})();
