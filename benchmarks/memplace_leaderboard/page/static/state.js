"use strict";
// All of the view's state stands in the address after "#": that is the permalink, and the back button works by itself.
(() => {
  const KEYS = ["view", "suite", "track", "form", "budget", "chip", "family", "q", "sort", "order", "id", "a", "b", "x", "by"];

  /** The state in the address; what is not there is "". */
  function read() {
    const given = new URLSearchParams(location.hash.slice(1));
    return Object.fromEntries(KEYS.map((key) => [key, given.get(key) || ""]));
  }

  function hash(state) {
    const said = new URLSearchParams();
    for (const key of KEYS) if (state[key]) said.set(key, state[key]);
    return `#${said.toString()}`;
  }

  /** The address of this state with some changes. */
  const address = (changes) => hash({ ...read(), ...changes });

  /** Change the state: a step that the back button undoes, or, if `quiet`, none. */
  function change(changes, quiet = false) {
    const next = address(changes);
    if (next === location.hash) return;
    if (quiet) location.replace(next);
    else location.hash = next;
  }

  Memplace.state = { read, address, change };
})();
