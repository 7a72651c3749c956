"use strict";
// Light or dark: what the system says, unless the reader chose; set before anything is drawn.
window.Memplace = {};
(() => {
  const KEY = "memplace-theme";
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];
  let chosen = null;
  try {
    chosen = localStorage.getItem(KEY);
  } catch {
    chosen = null; // storage may be refused to files
  }

  const isDark = () => (chosen === "dark" || chosen === "light" ? chosen === "dark" : system.matches);

  function apply() {
    document.documentElement.dataset.theme = isDark() ? "dark" : "light";
    listeners.forEach((listener) => listener());
  }

  function toggle() {
    chosen = isDark() ? "light" : "dark";
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      // then it holds until the page is closed
    }
    apply();
  }

  /** Value of a CSS variable, for what is not drawn by CSS. */
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  system.addEventListener("change", apply);
  apply();
  Memplace.theme = { isDark, toggle, colour, onChange: (listener) => listeners.push(listener) };
})();
