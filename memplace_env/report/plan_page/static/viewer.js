"use strict";
// The picture of plans with its controls: zoom, move, search, and what is under the pointer.
(() => {
  const { el } = Memplace.dom;
  const { bytes } = Memplace.text;
  const { axis, picture, hover, theme } = Memplace;
  const MOST_FOUND = 8;
  const KEYS = "Keys in the picture: + − zoom, ← → move, ↑ ↓ addresses, Shift with + − zooms addresses, 0 all, Esc unmarks.";

  const clamp = (value, least, most) => Math.max(least, Math.min(value, most));

  /** A range of the width times `factor` around a place in it, within limits. */
  function scaled([low, high], factor, at, [least, most], finest) {
    const width = clamp((high - low) * factor, finest, most - least);
    const start = clamp(at - ((at - low) / (high - low)) * width, least, most - width);
    return [start, start + width];
  }

  const moved = ([low, high], by, [least, most]) => {
    const start = clamp(low + by, least, most - (high - low));
    return [start, start + high - low];
  };

  /**
   * A viewer within an element.
   *
   * `onView(x, by)` is called when the reader changed the range ("" for the whole) or the axis; `show(document_, sides,
   * x, by)` draws plans: sides have letter and plan. `Memplace.viewer.shown()` is what is drawn.
   */
  function create(frame, onView) {
    let scene = null;
    const parts = build(frame);
    const { canvas, overlay, picture: box, tip } = parts;
    const pens = [canvas, overlay].map((each) => each.getContext("2d"));
    const family = getComputedStyle(document.body).fontFamily;
    const font = (px, weight = 400) => `${weight} ${px}px ${family}`;
    const whole = () => [0, scene.axis.most];
    const finest = () => (scene.axis.by === "time" ? scene.axis.most / 2e5 : 1);
    let pending = 0, at = null;

    function paint() {
      pending = 0;
      if (!scene) return;
      const width = Math.floor(box.clientWidth), ratio = window.devicePixelRatio || 1;
      const { list, height } = picture.panels(scene.document_, scene.sides, width);
      scene.panels = list;
      for (const [index, each] of [canvas, overlay].entries()) {
        if (each.width !== Math.round(width * ratio) || each.height !== Math.round(height * ratio)) {
          Object.assign(each, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
          each.style.height = `${height}px`;
        }
        pens[index].setTransform(ratio, 0, 0, ratio, 0, 0);
        pens[index].clearRect(0, 0, width, height);
      }
      picture.draw(pens[0], scene);
      point();
    }

    /** Paint before the next frame, once however often it is asked. */
    const repaint = () => {
      pending ||= requestAnimationFrame(paint);
    };

    /** Show what is at the pointer: a line through all panels, the tensor's blocks, words. */
    function point() {
      const pen = pens[1];
      pen.clearRect(0, 0, overlay.clientWidth, overlay.clientHeight);
      const place = at && hover.locate(scene, ...at);
      const tensor = place && place.block !== undefined ? place.panel.side.plan.blocks.tensor[place.block] : scene.marked;
      pen.strokeStyle = theme.colour("mark");
      for (const panel of scene.panels) {
        pen.save();
        pen.beginPath();
        pen.rect(panel.left, panel.from, panel.right - panel.left, panel.to - panel.from);
        pen.clip();
        if (place) {
          pen.lineWidth = 0.5;
          pen.strokeRect(at[0], panel.from - 1, 0, panel.to - panel.from + 2);
        }
        pen.lineWidth = 2;
        if (tensor !== null && panel.kind === "level") {
          for (const block of panel.blocks) if (panel.side.plan.blocks.tensor[block] === tensor) pen.strokeRect(...picture.rectangle(scene, panel, block));
        }
        pen.restore();
      }
      words(place);
    }

    function words(place) {
      const said = place && hover.lines(scene, place);
      tip.hidden = !said;
      if (!said) return;
      tip.replaceChildren(...said.map((line, index) => el(index ? "div" : "strong", {}, line)));
      const [x, y] = at;
      tip.style.left = `${clamp(x + 14, 0, Math.max(0, box.clientWidth - tip.offsetWidth))}px`;
      tip.style.top = `${y + 18 + tip.offsetHeight > box.clientHeight ? y - 12 - tip.offsetHeight : y + 18}px`;
    }

    function setX(range) {
      scene.view.x = range;
      repaint();
      const all = range[0] <= 0 && range[1] >= scene.axis.most;
      scene.asked = all ? "" : range.map((each) => each.toFixed(scene.axis.by === "time" ? 0 : 2)).join("_");
      onView(scene.asked, scene.axis.by);
    }

    const memories = () => scene.panels.filter((panel) => panel.kind === "level");

    /** Change the addresses that panels show, by a function of the range and its limits. */
    function setY(change, only = memories()) {
      for (const panel of only) scene.view.y[panel.key] = change(picture.upward(scene, panel), [0, panel.top]);
      repaint();
    }

    const zoomX = (factor, place = (scene.view.x[0] + scene.view.x[1]) / 2) => setX(scaled(scene.view.x, factor, place, whole(), finest()));
    const zoomY = (factor, place, only) => setY((range, limits) => scaled(range, factor, place ?? (range[0] + range[1]) / 2, limits, 256), only);
    const moveX = (share) => setX(moved(scene.view.x, share * (scene.view.x[1] - scene.view.x[0]), whole()));
    const moveY = (share, only) => setY((range, limits) => moved(range, share * (range[1] - range[0]), limits), only);

    function all() {
      scene.view.y = {};
      setX(whole());
    }

    /** Take the other axis, with the same ops of the first plan in view. */
    function turn(by) {
      const side = scene.sides[0], [low, high] = scene.view.x;
      const full = low <= 0 && high >= scene.axis.most;
      const [first, last] = [low, high].map((x) => scene.axis.opAt(side, x));
      scene.axis = axis.make(scene.sides, by);
      const range = [scene.axis.at(side, first), Math.min(scene.axis.at(side, last + 1), scene.axis.most)];
      labels();
      setX(full || range[0] >= range[1] ? whole() : range);
    }

    function labels() {
      for (const [by, button] of Object.entries(parts.by)) button.setAttribute("aria-pressed", String(scene.axis.by === by));
      parts.by.time.disabled = !scene.sides.every(axis.hasTimes);
    }

    /** Mark a tensor, show where it first is, and say where it is in each plan. */
    function mark(tensor, go = true) {
      scene.marked = tensor;
      parts.unmark.hidden = tensor === null;
      parts.said.textContent = tensor === null ? "" : `${scene.document_.tensors[tensor]} (${bytes(scene.document_.tensor_bytes[tensor])}). ${scene.sides.map((side) => hover.aboutTensor(scene.document_, side, tensor)).join(" ")}`;
      if (tensor !== null && go) reach(tensor);
      repaint();
    }

    /** Show the first block of a tensor in each panel that has one. */
    function reach(tensor) {
      const times = [];
      scene.view.y = {};
      for (const panel of memories()) {
        const { tensor: tensors, start, end, offset, bytes: size } = panel.side.plan.blocks;
        const block = panel.blocks.find((each) => tensors[each] === tensor);
        if (block === undefined) continue;
        times.push(scene.axis.at(panel.side, start[block]), scene.axis.at(panel.side, end[block] + 1));
        const room = Math.max(4 * size[block], 4096);
        scene.view.y[panel.key] = [Math.max(0, offset[block] - room), Math.min(panel.top, offset[block] + size[block] + room)];
      }
      if (!times.length) return;
      const [from, to] = [Math.min(...times), Math.max(...times)];
      const around = Math.max((to - from) * 1.5, scene.axis.most / 200), middle = (from + to) / 2;
      setX([Math.max(0, middle - around), Math.min(scene.axis.most, middle + around)]);
    }

    function search() {
      const text = parts.search.value.trim().toLowerCase();
      const { tensors, tensor_bytes: sizes } = scene.document_;
      const found = text ? tensors.flatMap((name, tensor) => (name.toLowerCase().includes(text) ? [tensor] : [])) : [];
      const buttons = found.slice(0, MOST_FOUND).map((tensor) => {
        const button = el("button", { type: "button" }, `${tensors[tensor].slice(-60)} `, el("span", { class: "muted" }, bytes(sizes[tensor])));
        button.addEventListener("click", () => mark(tensor));
        return el("li", {}, button);
      });
      parts.found.replaceChildren(...buttons);
      const more = found.length > MOST_FOUND ? `, the first ${MOST_FOUND} below` : "";
      parts.number.textContent = text ? `${found.length} ${found.length === 1 ? "tensor" : "tensors"}${more}` : "";
      return found;
    }

    listen();
    Memplace.viewer.shown = () => scene;

    function listen() {
      const clicks = [[parts.zoomIn, () => zoomX(0.5)], [parts.zoomOut, () => zoomX(2)], [parts.earlier, () => moveX(-0.25)], [parts.later, () => moveX(0.25)], [parts.all, all], [parts.unmark, () => mark(null)]];
      for (const [button, act] of clicks) button.addEventListener("click", () => scene && act());
      for (const [by, button] of Object.entries(parts.by)) button.addEventListener("click", () => turn(by));
      parts.search.addEventListener("input", search);
      parts.search.addEventListener("keydown", (event) => {
        const [first] = event.key === "Enter" ? search() : [];
        if (first !== undefined) mark(first);
      });
      Memplace.gestures.follow(box, {
        at: (place) => {
          at = place;
          if (scene?.panels) point();
        },
        press: () => {
          const place = at && hover.locate(scene, ...at);
          if (place) mark(place.block === undefined ? null : place.panel.side.plan.blocks.tensor[place.block], false);
        },
        drag: (across, down) => {
          const panel = at && scene.panels.find((each) => at[1] >= each.from && at[1] <= each.to);
          const { left, right } = scene.panels[0];
          if (across) moveX(-across / (right - left));
          if (down && panel?.kind === "level") moveY(down / (panel.to - panel.from), [panel]);
        },
        zoom: (factor, upright) => {
          const place = at && hover.locate(scene, ...at);
          if (!upright) zoomX(factor, place?.x);
          else if (place?.panel.kind === "level") zoomY(factor, place.y, [place.panel]);
        },
        key: (key, shift) => {
          const acts = {
            "+": () => zoomX(0.5), "=": () => zoomX(0.5), "-": () => zoomX(2), _: () => zoomX(2), ArrowLeft: () => moveX(-0.25), ArrowRight: () => moveX(0.25),
            ArrowUp: () => moveY(0.25), ArrowDown: () => moveY(-0.25), 0: all, Home: all, Escape: () => mark(null),
          };
          const upright = { "+": () => zoomY(0.5), "*": () => zoomY(0.5), "-": () => zoomY(2), _: () => zoomY(2) };
          const act = (shift && upright[key]) || acts[key];
          act?.();
          return Boolean(act);
        },
      });
      new ResizeObserver(repaint).observe(box);
      theme.onChange(repaint);
    }

    /** Draw plans; a range that makes no sense is the whole. */
    function show(document_, sides, x, by) {
      const fresh = scene?.document_ !== document_;
      const along = axis.make(sides, by === "op" || !sides.every(axis.hasTimes) ? "op" : "time");
      if (!fresh && scene.asked === x && scene.axis.by === along.by && scene.sides.every((side, index) => side.plan === sides[index]?.plan) && scene.sides.length === sides.length) return;
      const [low, high] = x.split("_").map(Number);
      const sound = Number.isFinite(low) && Number.isFinite(high) && low >= 0 && low < high && high <= along.most * 1.0001;
      const view = { x: sound ? [low, Math.min(high, along.most)] : [0, along.most], y: fresh ? {} : scene.view.y };
      scene = { document_, sides, axis: along, view, panels: [], marked: fresh ? null : scene.marked, font, asked: x };
      labels();
      paint();
      if (fresh) search();
      mark(scene.marked, false);
    }

    return { show };
  }

  /** The controls and the canvas, within an element. */
  function build(frame) {
    const button = (text) => el("button", { type: "button" }, text);
    const parts = { zoomIn: button("Zoom in"), zoomOut: button("Zoom out"), earlier: button("Earlier"), later: button("Later"), all: button("Whole program"), unmark: button("Unmark") };
    parts.by = { time: button("Time"), op: button("Ops") };
    parts.search = el("input", { type: "search", id: "find-tensor", autocomplete: "off", spellcheck: false });
    parts.number = el("span", { class: "muted", role: "status" });
    parts.found = el("ul", { class: "found", "aria-label": "Tensors that were found" });
    parts.said = el("p", { class: "said", role: "status", "aria-live": "polite" });
    parts.canvas = el("canvas", { "aria-hidden": "true" });
    parts.overlay = el("canvas", { "aria-hidden": "true", class: "over" });
    parts.tip = el("div", { class: "tip", id: "tip", hidden: true });
    parts.picture = el("div", { id: "picture", class: "picture", role: "application", "aria-label": `Plans, drawn. ${KEYS}`, tabIndex: 0 }, parts.canvas, parts.overlay, parts.tip);
    parts.unmark.hidden = true;
    frame.replaceChildren(
      el("div", { class: "bar" },
        el("div", { class: "buttons", role: "group", "aria-label": "Axis" }, parts.by.time, parts.by.op),
        el("div", { class: "buttons", role: "group", "aria-label": "Zoom" }, parts.zoomIn, parts.zoomOut, parts.earlier, parts.later, parts.all),
        el("div", { class: "find" }, el("label", { for: "find-tensor" }, "Find a tensor"), parts.search, parts.number, parts.unmark)),
      parts.found, parts.said, parts.picture,
      el("p", { class: "note" }, `Drag to move; Ctrl and the wheel zoom, Alt and the wheel zoom addresses; click a block to mark its tensor. ${KEYS}`),
    );
    return parts;
  }

  Memplace.viewer = { create };
})();
