"""How the live part of a page becomes the next one: what stays the same element, and what goes."""

from typing import Any, Final

import pytest

from tests.console.browser.window import Window

pytestmark = [pytest.mark.browser, pytest.mark.slow]

# Changes one text into another within an element, and says which of its elements are those of
# before, in the order of the new ones; the one with a `title` has the focus before.
_MORPHED: Final = """async ([before, after]) => {
  const { morph } = await import("/static/morph.js");
  const root = document.getElementById("live");
  root.innerHTML = before;
  const old = [...root.querySelectorAll("*")];
  const focused = root.querySelector("[title]");
  focused?.focus();
  morph(root, after);
  const expected = document.createElement("template");
  expected.innerHTML = after;
  return [
    root.innerHTML === expected.innerHTML,
    [...root.querySelectorAll("*")].map((each) => old.indexOf(each)),
    !focused || document.activeElement === focused,
  ];
}"""
LINK: Final = '<a href="x" title="">b</a>'


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ("<p>1</p>", "<p>2</p>", [0]),
        ('<p class="a">1</p>', '<p lang="en">1</p>', [0]),
        ("<p>1</p>", "<pre>1</pre>", [-1]),
        (f"<p>{LINK}</p>", f"<ul><li>1</li></ul><p>{LINK}</p>", [-1, -1, 0, 1]),
        (f"<ul><li>1</li></ul><p>{LINK}</p>", f"<p>{LINK}</p>", [2, 3]),
        (f"<p>1</p><p>{LINK}</p>", f"<p>2</p><p>{LINK}</p>", [0, 1, 2]),
        (f'<p id="a">1</p><p id="b">{LINK}</p>', f'<p id="b">{LINK}</p><p id="a">2</p>', [1, 2, 0]),
        (f'<p id="a">1</p><p id="b">{LINK}</p>', f'<p id="b">{LINK}</p>', [1, 2]),
        (f'<p id="b">{LINK}</p>', f'<p id="a">1</p><p id="b">{LINK}</p><p>3</p>', [-1, 0, 1, -1]),
        (f'\n<p id="a">1</p>\n<p id="b">{LINK}</p>\n', f'\n<p id="b">{LINK}</p>\n', [1, 2]),
        ('<p id="a">1</p>', '<p id="b">1</p>', [-1]),
        ("<p>1</p>", "", []),
    ],
)  # fmt: skip
def test_what_stays_is_the_same_element(
    window: Window, before: str, after: str, kept: list[int]
) -> None:
    page = window.open("/search")  # whose live part is not kept new
    outcome: list[Any] = page.evaluate(_MORPHED, [before, after])
    assert outcome == [True, kept, True]
