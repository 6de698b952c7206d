"""Each action by its form, from the page that offers it to its result, with script and without."""

import pytest
from playwright.sync_api import Page

from tests.console.browser.window import Window
from tests.console.demonstration import ARCHIVE, MAIL, ORDERS, ORDERS_COUNT, Demonstration

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.daily("in turn")]


def press(page: Page, text: str) -> None:
    page.get_by_role("main").get_by_role("button", name=text, exact=True).click()


def follow(page: Page, text: str) -> None:
    page.get_by_role("main").get_by_role("link", name=text, exact=True).click()


def main_text(page: Page) -> str:
    return " ".join(page.get_by_role("main").inner_text().split())


def test_a_topic_is_created_and_deleted_by_its_typed_name(
    either: Window, demonstration: Demonstration
) -> None:
    page = either.open("/topics")
    follow(page, "Create a topic")
    page.get_by_label("Topic", exact=True).fill("made-here")
    page.get_by_label("Cluster").fill("DefaultCluster")
    press(page, "See what it does")
    assert "8 queues at each of 1 broker" in main_text(page)
    assert "wakelog admin updateTopic -c DefaultCluster -t made-here -r 8 -w 8" in main_text(page)
    press(page, "Create topic")
    assert "Done." in main_text(page)
    demonstration.console.read()
    follow(page, "Back")
    assert page.url == f"{either.url}/topics/made-here"

    follow(page, "Delete")
    assert "0 messages in 8 queues can be consumed no more" in main_text(page)
    page.get_by_label("Type made-here to confirm").fill("made-her")
    press(page, "Delete topic")
    assert "Done." not in main_text(page)
    page.get_by_label("Type made-here to confirm").fill("made-here")
    press(page, "Delete topic")
    assert "Done." in main_text(page)
    demonstration.console.read()
    follow(page, "Back")
    assert page.get_by_role("link", name=ORDERS, exact=True).is_visible()
    assert not page.get_by_role("link", name="made-here").is_visible()
    assert [each for each in either.noted if "status of 422" not in each] == []


def test_offsets_are_reset(either: Window, demonstration: Demonstration) -> None:
    page = either.open(f"/groups/{ARCHIVE}")
    follow(page, "Reset offsets")
    assert page.get_by_label("Topic", exact=True).input_value() == ORDERS
    page.get_by_label("To", exact=True).fill("beginning")
    press(page, "See what it does")
    assert f"gives {ORDERS_COUNT} messages again, skips 0" in main_text(page)
    press(page, "Reset offsets")
    assert "Done." in main_text(page)
    demonstration.console.read()
    follow(page, "Back")
    assert f"lag {ORDERS_COUNT}" in main_text(page)
    page = either.open(f"/do/skip-messages?group={ARCHIVE}&topic={ORDERS}")
    page.get_by_label(f"Type {ARCHIVE} to confirm").fill(ARCHIVE)
    press(page, "Skip messages")
    assert "Done." in main_text(page)
    demonstration.console.read()


def test_a_dead_letter_is_sent_again(either: Window) -> None:
    page = either.open("/dead-letters")
    follow(page, MAIL)
    page.get_by_role("checkbox").first.check()
    press(page, "Send the ticked ones again")
    assert f"{MAIL} consumes 1 dead letter again" in main_text(page)
    press(page, "Send dead letters again")
    assert f"sent 1 to group {MAIL} again" in main_text(page)
    assert either.noted == []
