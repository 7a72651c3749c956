"use strict";
// Elements and texts. Foreign text gets into the page as text only, never as HTML.
(() => {
  /** An element with properties and children; "class", "data-*", "aria-*" and "role" become attributes. */
  function el(tag, properties = {}, ...children) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(properties)) {
      if (value === null || value === undefined || value === false) continue;
      if (key === "class" || key === "role" || key === "for" || key.includes("-")) node.setAttribute(key, String(value));
      else node[key] = value;
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }

  /** The node within a link, if the address is http or https; else the node alone. */
  function link(address, node) {
    let url = null;
    try {
      url = new URL(String(address));
    } catch {
      return node;
    }
    if (url.protocol !== "https:" && url.protocol !== "http:") return node;
    return el("a", { href: url.href, rel: "noopener noreferrer nofollow", target: "_blank" }, node);
  }

  const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

  /** A text that is shortened, and then has the whole one as its title. */
  function short(text, most = 32) {
    const whole = String(text);
    return whole.length > most ? el("span", { title: whole }, cut(whole, most)) : el("span", {}, whole);
  }

  /** What Plotly shows as just this text: it reads some tags and entities. */
  const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

  const missing = (value) => value === null || value === undefined || Number.isNaN(value);
  const scaled = (value, units, least) => {
    const [size, name] = units.find(([unit]) => Math.abs(value) >= unit) || units[units.length - 1];
    const digits = { minimumSignificantDigits: least, maximumSignificantDigits: Math.abs(value / size) >= 1000 ? 4 : 3 };
    return `${(value / size).toLocaleString("en", digits)} ${name}`;
  };
  const TIMES = [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"], [1, "ps"]];
  const BYTES = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];

  const time = (ps) => (missing(ps) ? "–" : ps === 0 ? "0" : scaled(ps, TIMES, 3));
  const bytes = (count) => (missing(count) ? "–" : scaled(count, BYTES, 1));
  const percent = (share, digits = 1) => (missing(share) ? "–" : `${(100 * share).toFixed(digits).replace("-", "−")} %`);
  const count = (value) => (missing(value) ? "–" : Math.round(value).toLocaleString("en"));
  const seconds = (value) => (missing(value) ? "–" : `${value.toLocaleString("en", { maximumSignificantDigits: 3 })} s`);

  const byId = (id) => document.getElementById(id);
  Memplace.dom = { el, link, cut, short, plain, byId };
  Memplace.text = { missing, time, bytes, percent, count, seconds };
})();
