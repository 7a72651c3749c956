"use strict";
// The filters above every view; each control is made once, and its options follow the state.
(() => {
  const { el, byId, cut } = Memplace.dom;
  const { state, scores } = Memplace;
  const controls = {};
  const NAMES = { "one-shot": "one-shot", game: "mallocGame" };

  function control(key, label, input) {
    input.id = `filter-${key}`;
    controls[key] = input;
    return el("div", { class: "field" }, el("label", { for: input.id }, label), input);
  }

  function build() {
    const form = byId("filters");
    const select = (key, label) => {
      const field = control(key, label, el("select"));
      // A new suite or track has other budgets, chips and families.
      const forget = { suite: ["track", "form", "budget", "chip", "family"], track: ["form", "budget", "chip", "family"], form: ["chip", "family"] };
      controls[key].addEventListener("change", () => {
        const changes = Object.fromEntries((forget[key] || []).map((other) => [other, ""]));
        state.change({ ...changes, [key]: controls[key].value });
      });
      return field;
    };
    const search = control("q", "Name contains", el("input", { type: "search", autocomplete: "off", spellcheck: false }));
    controls.q.addEventListener("input", () => state.change({ q: controls.q.value.trim() }, true));
    const reset = el("button", { type: "button", id: "reset" }, "Clear filters");
    reset.addEventListener("click", () => state.change({ budget: "", chip: "", family: "", q: "" }));
    form.append(
      select("suite", "Suite"), select("track", "Track"), select("form", "Formulation"), select("budget", "Budget"),
      select("chip", "Chip"), select("family", "Family"), search, el("div", { class: "field end" }, reset),
    );
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  function fill(key, options, chosen) {
    const wanted = options.map(([value, text]) => `${value}\n${text}`).join("\n");
    if (controls[key].dataset.options !== wanted) {
      controls[key].dataset.options = wanted;
      controls[key].replaceChildren(...options.map(([value, text]) => el("option", { value }, cut(text, 40))));
    }
    controls[key].value = chosen;
  }

  const budgetText = (budget) => (budget.endsWith("s") ? `${budget.slice(0, -1)} s` : budget === "own" ? "own choice" : `${Number(budget).toLocaleString("en")} plans`);

  function show(now) {
    const { suites } = window.memplaceData;
    const suite = scores.suiteOf(now);
    const track = scores.trackOf(now);
    const same = track.instances.filter((instance) => instance.formulation === now.form);
    const names = (key) => [...new Set(same.map((instance) => instance[key]))].sort().map((name) => [name, name]);
    fill("suite", suites.map((each) => [each.name, each.name]), suite.name);
    fill("track", suite.tracks.map((each) => [each.name, each.name]), track.name);
    fill("form", [...new Set(track.instances.map((each) => each.formulation))].map((name) => [name, NAMES[name] || name]), now.form);
    fill("budget", [["all", "all budgets"], ...track.budgets.map((each) => [each, budgetText(each)])], now.budget);
    fill("chip", [["", "all chips"], ...names("chip")], now.chip);
    fill("family", [["", "all families"], ...names("family")], now.family);
    if (document.activeElement !== controls.q) controls.q.value = now.q;
    byId("reset").disabled = !(now.chip || now.family || now.q || now.budget !== track.main_budget);
  }

  Memplace.filters = { build, show, budgetText };
})();
