"use strict";
// Performance profiles and anytime curves.
(() => {
  const { el, byId, plain, short } = Memplace.dom;
  const { scores, theme } = Memplace;
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const PATTERN = { solid: "", dash: "7 4", dot: "2 3", dashdot: "8 3 2 3" };

  /** Colour and dash of a submission: the same in every chart of its track, under every filter. */
  function look(group) {
    const { suite, track } = group.submission;
    const rivals = window.memplaceData.submissions.filter((each) => each.suite === suite && each.track === track);
    const index = rivals.indexOf(group.submission);
    const colours = [1, 2, 3, 4, 5, 6].map((number) => theme.colour(`series-${number}`));
    return { color: colours[index % colours.length], dash: DASHES[Math.floor(index / colours.length) % DASHES.length], width: 2.2 };
  }

  const axis = (title) => ({
    title: { text: title, standoff: 8 }, gridcolor: theme.colour("line"), linecolor: theme.colour("line"), zeroline: false, automargin: true, fixedrange: true,
  });

  /** What all pictures share. */
  function layout(extra) {
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, autosize: true,
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: theme.colour("ink") },
      hoverlabel: { bgcolor: theme.colour("raised"), bordercolor: theme.colour("line"), font: { color: theme.colour("ink"), size: 13 }, namelength: 40 },
      ...extra,
    };
  }

  const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false };

  function swatch(line) {
    const namespace = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(namespace, "svg");
    const stroke = document.createElementNS(namespace, "line");
    const set = (node, values) => Object.entries(values).forEach(([key, value]) => node.setAttribute(key, value));
    set(svg, { width: 30, height: 10, "aria-hidden": "true" });
    set(stroke, { x1: 1, x2: 29, y1: 5, y2: 5, stroke: line.color, "stroke-width": 2.5, "stroke-dasharray": PATTERN[line.dash] });
    svg.append(stroke);
    return svg;
  }

  /** Of each submission one group: its largest budget of those that are shown. */
  function largest(groups) {
    const best = new Map();
    const size = (budget) => (budget.endsWith("s") ? 0.5 : parseFloat(budget) || 0);
    for (const group of groups) {
      const other = best.get(group.index);
      if (!other || size(group.budget) > size(other.budget)) best.set(group.index, group);
    }
    return [...best.values()].sort((a, b) => a.index - b.index);
  }

  function show(now) {
    const groups = largest(scores.groups(now));
    byId("status").textContent = `${groups.length} ${groups.length === 1 ? "submission" : "submissions"} over ${scores.instances(now).size} instances`;
    byId("curves-legend").replaceChildren(
      ...groups.map((group) => el("li", {}, swatch(look(group)), short(group.submission.name, 32), el("span", { class: "muted" }, Memplace.filters.budgetText(group.budget)))),
    );
    const trace = (group, points, more) => ({ type: "scatter", mode: "lines", name: plain(group.submission.name), x: points.x, y: points.y, line: { ...look(group), ...more } });
    const profiles = groups.map((group) => trace(group, scores.profile(group.runs), { shape: "hv" }));
    const reach = scores.reachOf(groups);
    const curves = groups.map((group) => ({ ...trace(group, scores.anytime(now, group, reach), { shape: "hv" }), hovertemplate: "%{x} plans: %{y:.1%}" }));
    profiles.forEach((each) => (each.hovertemplate = "above %{x:.1%}: %{y:.0%} of runs"));
    const margin = { l: 60, r: 16, t: 12, b: 52 };
    // A little room on each side, so that lines at 0 are seen.
    const room = (traces, key) => {
      const most = Math.max(0.1, ...traces.flatMap((each) => each[key].filter((value) => value !== null)));
      const least = Math.min(0, ...traces.flatMap((each) => each[key].filter((value) => value !== null)));
      return { tickformat: ".0%", range: [least - 0.02 * (most - least), most + 0.04 * (most - least)] };
    };
    Plotly.react(byId("profile"), profiles, layout({ margin, hovermode: "closest", xaxis: { ...axis("share of the gain"), ...room(profiles, "x") }, yaxis: { ...axis("share of runs"), tickformat: ".0%", range: [-0.02, 1.03] } }), CONFIG);
    Plotly.react(byId("anytime"), curves, layout({ margin, hovermode: "closest", xaxis: { ...axis("evaluated plans"), type: "log", dtick: 1 }, yaxis: { ...axis("mean share of the gain"), ...room(curves, "y") } }), CONFIG);
  }

  Memplace.charts = { show, layout, axis, CONFIG };
})();
