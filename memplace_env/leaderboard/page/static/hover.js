"use strict";
// What is under the pointer in the picture of two plans. Blocks are parts of few filled lines, which Plotly cannot tell
// apart; so the block is looked up here, from the figure's public layout.
(() => {
  const { el, cut } = Memplace.dom;
  const { time, bytes } = Memplace.text;

  /** The panel at a place on the screen, and the op and value there; null outside. */
  function locate(frame, shown, event) {
    const box = frame.getBoundingClientRect();
    const { margin, panels } = shown;
    const [left, down] = [event.clientX - box.left - margin.l, event.clientY - box.top - margin.t];
    const width = box.width - margin.l - margin.r;
    const panel = panels.find((each) => down >= each.from && down <= each.to);
    if (!panel || left < 0 || left > width) return null;
    const across = frame.layout.xaxis.range;
    const upward = frame.layout[panel.axis.replace("y", "yaxis")].range;
    const x = across[0] + (left / width) * (across[1] - across[0]);
    const y = upward[0] + ((panel.to - down) / panel.px) * (upward[1] - upward[0]);
    return { panel, op: Math.floor(x), x, y };
  }

  /** When an op begins, in ps; of the end and beyond, when the last op has ended. */
  function begin(plan, op) {
    if (!plan.begin) {
      plan.begin = [0];
      for (const ps of plan.op_ps) plan.begin.push(plan.begin[plan.begin.length - 1] + ps);
    }
    return plan.begin[Math.min(op, plan.op_ps.length)];
  }

  const opText = (document_, op) => (op < document_.ops.length ? `op ${op} ${cut(document_.ops[op], 40)} (${cut(document_.types[op], 20)})` : `op ${op}, the end`);

  /** Lines about the block or the op there; null for none. */
  function lines(document_, place) {
    const { panel, op, x, y } = place;
    const { plan, letter } = panel.side;
    if (panel.kind === "time") {
      if (op < 0 || op >= document_.ops.length) return null;
      return [
        opText(document_, op),
        `${time(plan.op_ps[op])}, ${time(document_.compute_ps[op])} of it compute`,
        `begins at ${time(begin(plan, op))} in ${letter}`,
      ];
    }
    const { tensor, offset, start, end, kind, bytes: size, part } = plan.blocks;
    const block = panel.blocks.find((each) => {
      const low = offset[each] / panel.size;
      return x >= start[each] && x < end[each] + 1 && y >= low && y < low + size[each] / panel.size;
    });
    if (block === undefined) return null;
    const last = end[block];
    return [
      cut(document_.tensors[tensor[block]], 70) + (part[block] && `, ${part[block]}`),
      `${bytes(size[block])} in ${document_.levels[panel.level].name}, ${window.memplaceData.kinds[kind[block]].name}`,
      `from ${opText(document_, start[block])}`,
      `to ${opText(document_, last)}`,
      `${time(begin(plan, start[block]))} to ${time(begin(plan, last + 1))} of ${time(begin(plan, Infinity) + plan.tail_ps)} in ${letter}`,
    ];
  }

  /** Follow the pointer over the picture; `current()` gives what is drawn. */
  function follow(frame, tip, current) {
    const hide = () => {
      tip.hidden = true;
    };
    const move = (event) => {
      const shown = current();
      const place = shown && locate(frame, shown, event);
      const said = place && lines(shown.document_, place);
      if (!said) return hide();
      const text = said.join("\n");
      if (tip.dataset.text !== text) {
        tip.dataset.text = text;
        tip.replaceChildren(...said.map((line, index) => el(index ? "div" : "strong", {}, line)));
      }
      tip.hidden = false;
      const box = frame.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      tip.style.left = `${Math.max(0, Math.min(x + 14, box.width - tip.offsetWidth))}px`;
      tip.style.top = `${y + 18 + tip.offsetHeight > box.height ? y - 12 - tip.offsetHeight : y + 18}px`;
    };
    frame.addEventListener("pointermove", move);
    frame.addEventListener("pointerdown", move);
    frame.addEventListener("pointerleave", hide);
  }

  Memplace.hover = { follow };
})();
