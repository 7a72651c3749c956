"use strict";
// Draws the view that the address asks for, again whenever that changes.
(() => {
  const { el, byId } = Memplace.dom;
  const { state, scores, theme } = Memplace;
  const VIEWS = [["standings", "Standings"], ["curves", "Curves"], ["instances", "Instances"], ["plan", "Plans"]];

  function render() {
    const read = state.read();
    const view = VIEWS.some(([name]) => name === read.view) ? read.view : "standings";
    const now = scores.settled({ ...read, view });
    byId("views").replaceChildren(
      ...VIEWS.map(([name, text]) => el("a", { href: state.address({ view: name, sort: "", order: "" }), "aria-current": name === view ? "page" : null }, text)),
    );
    for (const [name] of VIEWS) byId(`view-${name}`).hidden = name !== view;
    byId("filters").hidden = view === "plan";
    byId("status").hidden = view === "plan";
    document.title = `${VIEWS.find(([name]) => name === view)[1]}, ${window.memplaceData.title}`;
    Memplace.filters.show(now);
    const shows = { standings: Memplace.standings, curves: Memplace.charts, instances: Memplace.instances, plan: Memplace.plans };
    shows[view].show(now);
  }

  async function copyLink() {
    const button = byId("copy");
    let said = "Copied";
    try {
      await navigator.clipboard.writeText(location.href);
    } catch {
      const field = el("textarea", { value: location.href, class: "unseen" }); // no clipboard for files in this browser
      document.body.append(field);
      field.select();
      if (!document.execCommand("copy")) said = "Copy it from the address bar";
      field.remove();
      button.focus();
    }
    button.textContent = said;
    setTimeout(() => (button.textContent = "Copy link"), 2000);
  }

  function footer() {
    const { versions, suites } = window.memplaceData;
    const made = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
    const hashes = suites.map((suite) => `${suite.name} (SHA-256 ${suite.sha256.slice(0, 12)}…)`);
    byId("footer").replaceChildren(
      el("p", {}, el("strong", {}, "Replayed: "), "every latency, share, gap and picture rests on a plan that was checked by the validator and timed by the simulator."),
      el("p", {}, el("strong", {}, "Run again: "), "rows with a tick; the date, the version and the machine are those of the rerun, and p is the probability of shares as far apart if nothing had changed."),
      el("p", {}, el("strong", {}, "Declared: "), "all other rows: how their plans were found, how many were tried and in which time; hardware and training are declared in every row."),
      el("p", {}, el("strong", {}, "Reproduce: "), el("code", {}, "memplace leaderboard verify DIR"), " replays a submission and refuses what differs."),
      el("p", {}, `Made by ${made.join(", ")} from ${hashes.join(", ")}.`),
    );
  }

  function start() {
    const data = window.memplaceData;
    if (!data || !data.suites.length) {
      byId("status").textContent = "The file data.js is missing beside this page, or it is empty.";
      return;
    }
    byId("title").textContent = data.title;
    Memplace.filters.build();
    footer();
    // The address is the view's state, so a link within the page moves the focus itself.
    byId("skip").addEventListener("click", (event) => {
      event.preventDefault();
      byId("main").focus();
    });
    byId("copy").addEventListener("click", copyLink);
    const label = () => {
      byId("theme").textContent = theme.isDark() ? "Light" : "Dark";
      byId("theme").setAttribute("aria-label", theme.isDark() ? "Use light colours" : "Use dark colours");
    };
    byId("theme").addEventListener("click", theme.toggle);
    theme.onChange(() => {
      label();
      render();
    });
    label();
    window.addEventListener("hashchange", render);
    render();
  }

  start();
})();
