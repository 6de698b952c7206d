// Keys: `/` searches, `g` and a letter goes to a page.

const PAGES = { o: "/", t: "/topics", g: "/groups", m: "/messages", d: "/dead-letters", b: "/brokers", n: "/name-servers", p: "/producers", c: "/clients", a: "/audit", r: "/trace", w: "/delayed", x: "/transactions", k: "/access" };
const SECOND_KEY_MS = 1000;

export function listen() {
  let askedMs = -Infinity;  // a page may be younger than a second
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "/") {
      event.preventDefault();
      document.querySelector(".search input")?.focus();
    } else if (event.timeStamp - askedMs > SECOND_KEY_MS) {
      if (event.key === "g") askedMs = event.timeStamp;
    } else if (PAGES[event.key]) {
      location.href = PAGES[event.key];
    }
  });
}
