// Changes an element into what new HTML says, in place: focus, places and selections stay.

function same(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName &&
    (one.id || "") === (other.id || "");
}

function change(old, wanted) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== wanted.data) old.data = wanted.data;
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) return;
  for (const { name } of [...old.attributes]) {
    if (!wanted.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old === document.activeElement) return;
  children(old, wanted);
}

// What is to become `wanted`: the one at this place, or a later one before which others have gone.
function find(at, wanted) {
  if (at && same(at, wanted)) return at;
  if (wanted.nodeType !== Node.ELEMENT_NODE) return null;
  let found = at;
  while (found && !(same(found, wanted) && (wanted.id || found.className === wanted.className))) {
    found = found.nextSibling;
  }
  return found;
}

function children(old, wanted) {
  const ids = new Set([...wanted.children].map((each) => each.id));
  ids.delete("");
  let at = old.firstChild;
  for (const each of [...wanted.childNodes]) {
    const found = find(at, each);
    if (!found) {
      old.insertBefore(each, at);
      continue;
    }
    while (at !== found && !ids.has(at.id)) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
    if (found === at) at = at.nextSibling;
    else old.insertBefore(found, at);
    change(found, each);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

export function morph(element, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const focused = document.activeElement;
  children(element, template.content);
  // What was moved has lost the focus.
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}
