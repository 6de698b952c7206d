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

function children(old, wanted) {
  let at = old.firstChild;
  for (const each of [...wanted.childNodes]) {
    let found = at;
    if (each.id) {
      while (found && found.id !== each.id) found = found.nextSibling;
    }
    if (found && same(found, each)) {
      if (found !== at) old.insertBefore(found, at);
      else at = at.nextSibling;
      change(found, each);
    } else {
      old.insertBefore(each, at);
    }
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
  children(element, template.content);
}
