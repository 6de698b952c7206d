"""The console by keyboard alone: keys that lead to pages, and the order of the tabulator."""

from typing import Final

import pytest
from playwright.sync_api import Page

from tests.console.browser.addresses import SOME_ROUTES, Addresses
from tests.console.browser.window import Window
from tests.console.demonstration import ORDERS

pytestmark = [pytest.mark.browser, pytest.mark.slow]

# What a person can get to within something, in the order of the page.
_NUMBERED: Final = """(within) => {
  const wanted = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]";
  const seen = [...document.querySelector(within).querySelectorAll(wanted)].filter(
    (each) => each.checkVisibility() && !each.disabled);
  window.stops = seen;  // and no attributes: what is live takes them away
  return seen.length;
}"""
_FOCUSED: Final = """() => {
  const at = document.activeElement;
  const style = getComputedStyle(at);
  const box = at.getBoundingClientRect();
  const isMarked = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  const isInside = box.width > 0 && box.height > 0 && box.left >= 0 && box.top >= 0 &&
    box.right <= innerWidth + 1 && box.bottom <= innerHeight + 1;
  return [window.stops.indexOf(at), isMarked && isInside, at.outerHTML.slice(0, 120)];
}"""


@pytest.mark.parametrize(
    ("keys", "path"),
    [("g t", "/topics"), ("g g", "/groups"), ("g n", "/name-servers"), ("g p", "/producers")],
)
def test_two_keys_lead_to_a_page(window: Window, keys: str, path: str) -> None:
    page = window.open("/messages")
    for key in keys.split():
        page.keyboard.press(key)
    page.wait_for_url(window.url + path)
    assert window.noted == []


def test_a_slash_searches(window: Window) -> None:
    page = window.open("/groups")
    page.keyboard.press("/")
    page.keyboard.type(ORDERS)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{window.url}/topics/{ORDERS}")


def test_keys_typed_into_a_field_lead_nowhere(window: Window) -> None:
    page = window.open("/groups")
    field = page.get_by_placeholder("Groups with")
    field.focus()
    page.keyboard.type("g t/")
    assert (field.input_value(), page.url) == ("g t/", f"{window.url}/groups")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url(f"{window.url}/topics")


def test_the_first_stop_leads_past_the_navigation(window: Window) -> None:
    page = window.open("/topics")
    page.keyboard.press("Tab")
    page.evaluate(_NUMBERED, "body")
    assert page.evaluate(_FOCUSED)[1:] == [True, '<a class="skip" href="#main">To the page</a>']
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate('document.activeElement.closest("main") !== null')


def test_the_tabulator_reaches_all_of_a_page_from_its_begin(window: Window) -> None:
    check_stops(window.open("/"), "body")


@pytest.mark.parametrize("route", SOME_ROUTES)
def test_the_tabulator_reaches_all_in_its_order_and_shows_where_it_is(
    window: Window, addresses: Addresses, route: str
) -> None:
    for address in addresses.of_pages[route][:1]:
        page = window.open(address)
        page.get_by_placeholder("Name, key").focus()  # the last before what differs
        check_stops(page, "main")


def check_stops(page: Page, within: str) -> None:
    """Press the tabulator through a part of a page, which comes next."""
    numbers = range(page.evaluate(_NUMBERED, within))
    stops = [next_stop(page) for _ in numbers]
    assert [at for at, _, _ in stops] == list(numbers)
    assert [text for _, is_seen, text in stops if not is_seen] == []


def next_stop(page: Page) -> tuple[int, bool, str]:
    """Press the tabulator; return the number of what has the focus, and whether that is seen."""
    page.keyboard.press("Tab")
    at, is_seen, text = page.evaluate(_FOCUSED)
    return at, is_seen, text
