// Keys: `/` searches, `g` and a letter goes to a page.

const PAGES = { o: "/", t: "/topics", g: "/groups", m: "/messages", d: "/dead-letters", b: "/brokers", c: "/clients", a: "/audit", r: "/trace" };
const SECOND_KEY_MS = 1000;

export function listen() {
  let asked = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "/") {
      event.preventDefault();
      document.querySelector(".search input")?.focus();
    } else if (event.key === "g" && event.timeStamp - asked > SECOND_KEY_MS) {
      asked = event.timeStamp;
    } else if (asked && event.timeStamp - asked <= SECOND_KEY_MS && PAGES[event.key]) {
      location.href = PAGES[event.key];
    }
  });
}
