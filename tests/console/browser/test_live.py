"""What changes while a page is open: in place, as text, and nothing jumps."""

from typing import Final, NamedTuple

import pytest
from playwright.sync_api import Page, expect

from tests.console.browser.window import NARROW, Window
from tests.console.demonstration import SCRIPT, Demonstration

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TICKS: Final = "ticks"
ABOVE: Final = "a-topic-above"
"""Topics of these tests alone."""

# Keeps the element of an id, and gives the focus to a link or a field in it.
_HOLD: Final = """(id) => {
  window.held = document.getElementById(id);
  window.held.querySelector("a, input").focus();
  window.held.scrollIntoView();
}"""
_HELD: Final = """() => [
  document.getElementById(window.held.id) === window.held,
  window.held.contains(document.activeElement),
  Math.round(window.held.getBoundingClientRect().top),
]"""


class Held(NamedTuple):
    """Whether an element is the same as before, whether it has the focus, and where it is."""

    is_same: bool
    has_focus: bool
    top: int


def held(page: Page) -> Held:
    """Return what became of the element that is held."""
    return Held(*page.evaluate(_HELD))


def stayed(before: Held, after: Held) -> bool:
    """Return whether nothing happened to an element; its place is rounded."""
    return before[:2] == after[:2] == (True, True) and abs(after.top - before.top) <= 1


def test_a_value_changes_in_place(window: Window, demonstration: Demonstration) -> None:
    demonstration.send("first", TICKS)
    demonstration.read()
    page = window.open("/topics")
    page.set_viewport_size({"width": NARROW, "height": 120})
    page.evaluate(_HOLD, f"t-{TICKS}")
    before = held(page)
    cell = page.locator(f"#t-{TICKS} [data-head=Messages]")
    count = int(cell.inner_text())
    for topic in (TICKS, ABOVE):
        demonstration.send("one more", topic)
    window.wait("counted", lambda: demonstration.read() or cell.inner_text() == str(count + 1))
    page.locator(f"#t-{ABOVE}").wait_for(state="attached")
    assert stayed(before, held(page))
    assert window.noted == []


def test_a_row_that_moves_keeps_the_focus(window: Window, demonstration: Demonstration) -> None:
    for topic in (TICKS, ABOVE):
        demonstration.send("the last one", topic)
    demonstration.read()
    page = window.open("/topics?sort=-last")
    first = page.locator("tbody tr").first
    expect(first).to_have_attribute("id", f"t-{ABOVE}")
    page.evaluate(_HOLD, f"t-{TICKS}")
    demonstration.send("now this is", TICKS)
    demonstration.read()
    expect(first).to_have_attribute("id", f"t-{TICKS}")
    assert held(page)[:2] == (True, True)


def test_no_name_of_a_topic_takes_the_place_of_a_part_of_the_page(
    window: Window, demonstration: Demonstration
) -> None:
    demonstration.send("named as an element", "state")
    demonstration.read()
    page = window.open("/topics")
    link = page.get_by_role("link", name="state", exact=True)
    link.wait_for()
    demonstration.send("counted", "state")
    demonstration.read()
    expect(page.get_by_role("contentinfo")).to_contain_text("live")
    expect(link).to_be_visible()


def test_what_is_typed_stays(window: Window, demonstration: Demonstration) -> None:
    page = window.open("/brokers/broker-a?tab=runtime")
    field = page.get_by_placeholder("Names and values with")
    field.fill("put")
    cell = page.locator("#r-msgPutTotalTodayNow td")
    before = cell.inner_text()
    demonstration.send("counted", TICKS)
    window.wait("read", lambda: demonstration.read() or cell.inner_text() != before)
    expect(field).to_be_focused()
    expect(field).to_have_value("put")


def test_a_page_that_is_not_kept_new_says_so(window: Window) -> None:
    window.page.route("**/live?*", lambda route: route.abort())
    page = window.open("/topics")
    expect(page.locator("#state")).to_contain_text("not kept new since")


def test_a_tail_shows_a_sent_message_as_text(window: Window, demonstration: Demonstration) -> None:
    demonstration.send("first", TICKS)
    page = window.open(f"/topics/{TICKS}/messages?live=1&text=script")
    expect(page.locator("#tail-state")).to_contain_text("Following", use_inner_text=True)
    title = page.title()
    row = page.locator("#tail tbody tr").first
    window.wait("followed", lambda: demonstration.send(SCRIPT, TICKS) and row.is_visible())
    assert SCRIPT in row.inner_text()
    assert page.locator("#tail :is(script, img)").count() == 0
    assert (page.title(), window.noted) == (title, [])


def test_new_rows_wait_while_a_tail_is_read(window: Window, demonstration: Demonstration) -> None:
    for number in range(12):
        demonstration.send(f"waits {number}", TICKS)
    page = window.open(f"/topics/{TICKS}/messages?live=1")
    expect(page.locator("#tail-state")).to_have_text("Following")
    page.set_viewport_size({"width": NARROW, "height": 240})
    rows = page.locator("#tail tbody tr")
    page.evaluate(_HOLD, rows.last.get_attribute("id"))
    before, count = held(page), rows.count()
    button = page.locator("#tail-new")
    window.wait("counted", lambda: demonstration.send("late", TICKS) and button.is_visible())
    assert stayed(before, held(page))
    assert rows.count() == count
    button.click()
    expect(rows.first).to_contain_text("late")
