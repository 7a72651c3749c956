"use strict";
// Pointers, wheel and keys over a picture, as moves, zooms and presses.
(() => {
  const STILL_PX = 4;

  /**
   * Follow them over an element.
   *
   * `to`: at([x, y] or null), where the pointer is; press(), a click; drag(across, down) in pixels; zoom(factor, upright);
   * key(name, shift), which returns whether it did anything.
   */
  function follow(box, to) {
    const pointers = new Map();
    let travelled = 0;
    const place = (event) => {
      const { left, top } = box.getBoundingClientRect();
      return [event.clientX - left, event.clientY - top];
    };

    box.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, place(event));
      if (pointers.size === 1) travelled = 0;
      to.at(place(event));
    });

    box.addEventListener("pointermove", (event) => {
      const now = place(event), before = pointers.get(event.pointerId);
      if (before && pointers.size === 1 && event.buttons) {
        const [across, down] = [now[0] - before[0], now[1] - before[1]];
        travelled += Math.abs(across) + Math.abs(down);
        if (travelled > STILL_PX) {
          box.setPointerCapture(event.pointerId);
          to.drag(across, event.pointerType === "touch" ? 0 : down);
        }
      } else if (before && pointers.size === 2) {
        const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
        const [was, is] = [before, now].map((at) => Math.max(20, Math.abs(at[0] - other[0])));
        travelled = Infinity;
        to.zoom(was / is, false);
      }
      if (before) pointers.set(event.pointerId, now);
      to.at(now);
    });

    const up = (event) => {
      const pressed = event.type === "pointerup" && pointers.size === 1 && travelled <= STILL_PX;
      pointers.delete(event.pointerId);
      if (pressed) to.press();
    };
    box.addEventListener("pointerup", up);
    box.addEventListener("pointercancel", up);
    box.addEventListener("pointerleave", () => to.at(null));

    // A wheel without a key scrolls the page, as everywhere else; sideways it moves the picture.
    box.addEventListener("wheel", (event) => {
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!event.ctrlKey && !event.metaKey && !event.altKey && !sideways) return;
      event.preventDefault();
      if (sideways && !event.ctrlKey) to.drag(-event.deltaX, 0);
      else to.zoom(Math.exp(Math.max(-120, Math.min(event.deltaY, 120)) / 200), event.altKey);
    }, { passive: false });

    box.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey && to.key(event.key, event.shiftKey)) event.preventDefault();
    });
  }

  Memplace.gestures = { follow };
})();
