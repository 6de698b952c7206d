// A live tail: new rows on top; while the page is scrolled they wait behind a button.

const ROWS_MAX = 200;
const body = document.getElementById("tail").tBodies[0];
const state = document.getElementById("tail-state");
const button = document.getElementById("tail-new");
const waiting = [];
let said = "";

function show(rows) {
  body.prepend(...rows);
  while (body.rows.length > ROWS_MAX) body.lastElementChild.remove();
}

function count() {
  button.hidden = !waiting.length;
  button.textContent = `${waiting.length < ROWS_MAX ? waiting.length : `${ROWS_MAX} or more`} new`;
}

function read(html) {
  const template = document.createElement("template");
  template.innerHTML = `<table><tbody>${html}</tbody></table>`;
  return [...template.content.querySelectorAll("tr")].filter((row) => !document.getElementById(row.id));
}

function isReading() {
  return body.parentElement.getBoundingClientRect().top < 0 || body.contains(document.activeElement);
}

function showWaiting() {
  show(waiting.splice(0));
  count();
}

const source = new EventSource(document.getElementById("tail-of").dataset.url);
const tell = (text) => { state.textContent = said ? `${text}; ${said}` : text; };
source.addEventListener("began", () => tell("Following"));
source.addEventListener("rows", (event) => {
  const rows = read(JSON.parse(event.data));
  if (!isReading() && !waiting.length) {
    show(rows);
    return;
  }
  waiting.unshift(...rows);
  waiting.splice(ROWS_MAX);
  count();
});
source.addEventListener("said", (event) => {
  said = JSON.parse(event.data);
  tell("Following");
});
source.onerror = () => tell(`Not following since ${new Date().toLocaleTimeString()}`);
button.addEventListener("click", () => {
  showWaiting();
  window.scrollTo(0, 0);
});
window.addEventListener("scroll", () => { if (waiting.length && !isReading()) showWaiting(); });
window.addEventListener("pagehide", () => source.close());
