"use strict";
// What is at a place of the picture, in words.
(() => {
  const { cut } = Memplace.dom;
  const { time, bytes } = Memplace.text;
  const { axis, picture } = Memplace;

  /** The panel at a place in pixels, and the place on its axes; null outside. */
  function locate(scene, left, down) {
    const panel = scene.panels.find((each) => down >= each.from && down <= each.to && left >= each.left && left <= each.right);
    if (!panel) return null;
    const [low, high] = scene.view.x, [bottom, top] = picture.upward(scene, panel);
    const x = low + ((left - panel.left) / (panel.right - panel.left)) * (high - low);
    const y = bottom + ((panel.to - down) / (panel.to - panel.from)) * (top - bottom);
    return { panel, x, y, block: panel.kind === "level" ? blockAt(scene, panel, left, down) : undefined };
  }

  /** The block under a place, or within two pixels of it: thin blocks could not be met otherwise. */
  function blockAt(scene, panel, left, down) {
    const scale = picture.scales(scene, panel);
    let nearest, least = 2.5;
    for (const block of panel.blocks) {
      const [from, top, width, height] = picture.rectangle(scene, panel, block, scale);
      const away = Math.max(from - left, left - from - width, top - down, down - top - height, 0);
      if (away < least) [nearest, least] = [block, away];
      if (away === 0) return block;
    }
    return nearest;
  }

  const opText = (document_, op) => (op < document_.ops.length ? `op ${op} ${cut(document_.ops[op], 40)} (${cut(document_.types[op], 20)})` : "the end");

  function saved(document_, ps) {
    const backing = document_.levels[document_.levels.length - 1].name;
    if (ps === 0) return `saves nothing against ${backing}`;
    return `${ps > 0 ? "saves" : "costs"} ${time(Math.abs(ps))} against ${backing}`;
  }

  /** Lines about a block. */
  function aboutBlock(document_, side, block) {
    const { tensor, level, start, end, kind, bytes: size, part, saved_ps: worth } = side.plan.blocks;
    const begin = axis.beginOf(side.plan), last = Math.min(end[block] + 1, begin.length - 1);
    return [
      cut(document_.tensors[tensor[block]], 70) + (part[block] && `, ${part[block]}`),
      `${bytes(size[block])} in ${document_.levels[level[block]].name}, ${document_.kinds[kind[block]].name}`,
      ...(axis.hasTimes(side) ? [saved(document_, worth[block])] : []),
      `from ${opText(document_, start[block])}`,
      `to ${opText(document_, end[block])}`,
      ...(axis.hasTimes(side) ? [`${time(begin[start[block]])} to ${time(begin[last])} of ${time(side.plan.latency_ps)} in ${side.letter}`] : []),
    ];
  }

  /** Lines about the block or the op at a place; null for none. */
  function lines(scene, { panel, x, block }) {
    const { document_ } = scene, { side } = panel;
    if (panel.kind === "level") return block === undefined ? null : aboutBlock(document_, side, block);
    const op = scene.axis.opAt(side, x), { plan } = side;
    if (op === document_.ops.length && plan.tail_ps) return ["copies after the last op", `${time(plan.tail_ps)} in ${side.letter}`];
    if (op >= document_.ops.length) return null;
    return [
      opText(document_, op),
      `${time(plan.op_ps[op])}, ${time(Math.min(document_.compute_ps[op], plan.op_ps[op]))} of it compute${plan.stall_ps[op] ? `, ${time(plan.stall_ps[op])} waiting for copies` : ""}`,
      `begins at ${time(axis.beginOf(plan)[op])} in ${side.letter}`,
    ];
  }

  /** A sentence about a tensor in a plan: where it is when, and what that saves. */
  function aboutTensor(document_, side, tensor) {
    const { tensor: tensors, level, start, end, saved_ps: worth } = side.plan.blocks;
    const blocks = tensors.flatMap((each, block) => (each === tensor ? [block] : []));
    if (!blocks.length) return `${side.letter}: in ${document_.levels[document_.levels.length - 1].name} only.`;
    const where = blocks.slice(0, 4).map((block) => `${document_.levels[level[block]].name} in ops ${start[block]} to ${Math.min(end[block], document_.ops.length - 1)}`);
    const more = blocks.length > 4 ? ` and ${blocks.length - 4} more` : "";
    const gain = axis.hasTimes(side) ? `; ${saved(document_, blocks.reduce((sum, block) => sum + worth[block], 0))}` : "";
    return `${side.letter}: ${where.join(", ")}${more}${gain}.`;
  }

  Memplace.hover = { locate, lines, aboutTensor };
})();
