"use strict";
// Scores over the runs that are shown, by the definitions of the tables that Python made.
(() => {
  const data = () => window.memplaceData;
  const suiteOf = (state) => data().suites.find((suite) => suite.name === state.suite) || data().suites[0];
  const trackOf = (state) => {
    const suite = suiteOf(state);
    return suite.tracks.find((track) => track.name === state.track) || suite.tracks[0];
  };
  const played = new Set();

  /** Whether anybody has runs of these. */
  function isPlayed(suite, track, formulation) {
    if (played.size === 0) {
      for (const row of data().rows) {
        const { suite: s, track: t } = data().submissions[row.submission];
        played.add(`${s}\n${t}\n${row.formulation}`);
      }
    }
    return played.has(`${suite.name}\n${track.name}\n${formulation}`);
  }

  /** The state with every choice made: what is not chosen is the first that has runs. */
  function settled(state) {
    const suite = suiteOf(state);
    const track = trackOf(state);
    const forms = [...new Set(track.instances.map((instance) => instance.formulation))];
    const form = forms.includes(state.form) ? state.form : forms.find((each) => isPlayed(suite, track, each)) || forms[0];
    return { ...state, suite: suite.name, track: track.name, form: form || "", budget: state.budget || track.main_budget };
  }

  /** Instances by id, of the chosen formulation, chip and family. */
  function instances(state) {
    const kept = trackOf(state).instances.filter(
      (each) =>
        each.formulation === state.form &&
        (!state.chip || each.chip === state.chip) &&
        (!state.family || each.family === state.family),
    );
    return new Map(kept.map((each) => [each.id, each]));
  }

  /** Which submissions stand in the table of a budget, with the budget that each of them played: "index budget". */
  function shownAt(state) {
    const computed = (row) => row.standing === "computed";
    const rows = data().rows.filter((row) => row.formulation === state.form && (state.budget === "all" || row.budget === state.budget || computed(row)));
    return new Set(rows.map((row) => `${row.submission} ${row.played_budget}`));
  }

  const standingOf = () => new Map(data().rows.map((row) => [`${row.submission} ${row.played_budget}`, row.standing]));

  /** Groups of runs: one for each submission and budget that is shown, with indices into the cells. */
  function groups(state, { text = true } = {}) {
    const { cells, submissions } = data();
    const kept = instances(state);
    const wanted = text ? state.q.toLowerCase() : "";
    const fitting = shownAt(state);
    const standing = standingOf();
    const found = new Map();
    for (let run = 0; run < cells.id.length; run += 1) {
      const submission = submissions[cells.submission[run]];
      if (submission.suite !== state.suite || submission.track !== state.track) continue;
      const key = `${cells.submission[run]} ${cells.budget[run]}`;
      if (!kept.has(cells.id[run]) || !fitting.has(key)) continue;
      if (wanted && !submission.name.toLowerCase().includes(wanted)) continue;
      if (!found.has(key)) found.set(key, { index: cells.submission[run], submission, budget: cells.budget[run], standing: standing.get(key), runs: [] });
      found.get(key).runs.push(run);
    }
    return [...found.values()];
  }

  const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);

  /** Mean of the middle half, a quarter cut off at each end. */
  function interquartileMean(values) {
    const sorted = [...values].sort((a, b) => a - b);
    const tail = Math.floor(sorted.length / 4);
    return mean(sorted.slice(tail, sorted.length - tail));
  }

  const shares = (runs) => runs.map((run) => data().cells.share[run]).filter((share) => share !== null);

  /** What Python computed of a group over all instances of the formulation. */
  const rowOf = (state, group) =>
    data().rows.find((row) => row.submission === group.index && row.played_budget === group.budget && row.formulation === state.form);

  /** Score, gap and proven optima of runs, over the instances that count; no intervals. */
  function recomputed(state, group) {
    const { cells } = data();
    const known = instances(state);
    const counting = group.runs.filter((run) => cells.share[run] !== null);
    const ratios = counting.map((run) => cells.latency_ps[run] / known.get(cells.id[run]).bound_ps);
    const bounded = counting.length > 0 && counting.every((run) => known.get(cells.id[run]).bound_ps !== null);
    return {
      share: mean(shares(counting)), low: null, high: null, improvement: null,
      iqm: interquartileMean(shares(counting)), optimality_gap: mean(shares(counting).map((share) => 1 - Math.min(share, 1))),
      gap: bounded ? Math.exp(mean(ratios.map(Math.log))) - 1 : null,
      solved: bounded ? mean(ratios.map((ratio) => (ratio <= 1.0001 ? 1 : 0))) : null,
    };
  }

  /** One row for each group: Python's figures where all instances are shown, else what is recomputed here. */
  function standings(state) {
    const { cells } = data();
    const whole = !state.chip && !state.family;
    return groups(state).map((group) => ({
      ...(whole ? rowOf(state, group) : recomputed(state, group)),
      ...group,
      mark: rowOf(state, group)?.mark,
      evaluations: mean(group.runs.map((run) => cells.evaluations[run])),
      seconds: (whole && rowOf(state, group)?.seconds) || mean(group.runs.map((run) => cells.seconds[run]).filter((each) => each !== null)),
    }));
  }

  /** Share of runs above each threshold: a step down at each run's share. */
  function profile(runs) {
    const sorted = shares(runs).sort((a, b) => a - b);
    const x = [Math.min(0, sorted[0] ?? 0), ...sorted];
    return { x, y: x.map((_, index) => (sorted.length - index) / sorted.length) };
  }

  /** The last point of the grid at which any of these runs has not ended. */
  function reachOf(groups) {
    const shown = new Set(groups.map((group) => `${group.index} ${group.budget}`));
    const kept = window.memplaceData.curves.series.filter((each) => shown.has(`${each.submission} ${each.budget}`));
    return Math.max(0, ...kept.map((each) => each.share.findLastIndex((share) => share !== null)));
  }

  /** Mean over the shown instances at each point of the grid; what chose its own end stays there until `reach`. */
  function anytime(state, group, reach) {
    const { grid, series } = data().curves;
    const known = instances(state);
    const kept = series.filter(
      (each) => each.submission === group.index && each.budget === group.budget && known.has(each.id),
    );
    const last = grid.map((_, point) => kept.some((each) => each.share[point] !== null)).lastIndexOf(true);
    const end = Math.max(last, group.budget === "own" ? reach : 0);
    const held = kept.map((each) => {
      let value = 0;
      return each.share.map((share) => (value = share ?? value));
    });
    const x = grid.slice(0, end + 1);
    return { x, y: x.map((_, point) => mean(held.map((values) => values[point]))) };
  }

  Memplace.scores = { settled, suiteOf, trackOf, instances, groups, recomputed, rowOf, standings, profile, anytime, reachOf, interquartileMean };
})();
