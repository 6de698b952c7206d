"""Every page in Chromium: at two widths, light and dark, with script and without."""

from collections.abc import Iterable, Sequence

import pytest
from playwright.sync_api import Page

from tests.console.browser.addresses import DISTINCT_ROUTES, ROUTES, SOME_ROUTES, Addresses
from tests.console.browser.window import NARROW, VIEWS, WIDE, View, Window

pytestmark = [pytest.mark.browser, pytest.mark.slow]

EVERY_DAY = (View(WIDE, "light"), View(NARROW, "dark"))
OF_COLOURS = ("color-contrast", "link-in-text-block")
"""Rules of axe for a page that all rules have seen in other colours."""
CONTROLS = "a:visible, button:visible, input:visible, select:visible, textarea:visible"


def test_every_route_is_led_to_and_every_link_works(addresses: Addresses) -> None:
    assert addresses.failed == []
    assert sorted(set(ROUTES) - addresses.of_pages.keys()) == []


@pytest.mark.parametrize("route", DISTINCT_ROUTES)
def test_a_page_has_no_fault(window: Window, addresses: Addresses, route: str) -> None:
    """Each page fits into a narrow window; every third is looked at there in its other colours."""
    second = OF_COLOURS if DISTINCT_ROUTES.index(route) % 3 == 0 else None
    assert faults_at(window, addresses.of_pages[route][:1], EVERY_DAY, second) == []


@pytest.mark.long
@pytest.mark.parametrize("route", ROUTES)
def test_a_page_has_no_fault_in_any_form(window: Window, addresses: Addresses, route: str) -> None:
    assert faults_at(window, addresses.of_pages[route], VIEWS, second=()) == []


def faults_at(
    window: Window,
    addresses: Iterable[str],
    views: Sequence[View],
    second: Sequence[str] | None,
) -> list[str]:
    """Return what is wrong with pages, each shown in some ways.

    second: the rules of axe after the first way, as for `Window.faults`.
    """
    found = []
    for address in addresses:
        window.open(address)
        for view in views:
            window.show_as(view)
            rules = () if view == views[0] else second
            found += [f"{address} at {view}: {fault}" for fault in window.faults(rules)]
        found += [f"{address}: {each}" for each in window.noted]
        window.noted.clear()
    return found


@pytest.mark.parametrize("route", SOME_ROUTES)
def test_a_page_has_the_same_without_script(
    window: Window, window_without_script: Window, addresses: Addresses, route: str
) -> None:
    for address in addresses.of_pages[route][:1]:
        pages = window.open(address), window_without_script.open(address)
        headings = [page.locator("h1").inner_text() for page in pages]
        assert headings[0] == headings[1] != ""
        assert controls(pages[0]) == controls(pages[1]), address


def controls(page: Page) -> list[str]:
    """Return what can be followed, pressed and filled in, as far as it is seen."""
    found: list[str] = page.locator(CONTROLS).evaluate_all(
        "(all) => all.map((x) => `${x.tagName} ${x.getAttribute('href') ?? x.name} ${x.type}`)"
    )
    return found
