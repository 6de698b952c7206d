"""The page of who did what."""

from tests.console.site import Browser, Serving


def test_what_was_done_is_shown_with_its_command(browser: Browser, console: Serving) -> None:
    browser.submit("/do/create-topic", topic="audited", cluster="DefaultCluster", queues="1")
    text = browser.get("/audit?q=audited").text
    assert "wakelog admin updateTopic -c DefaultCluster -t audited -r 1 -w 1 done" in text
    assert "everyone 127.0.0.1" in text
    assert "with “no-such-action”" in browser.get("/audit?q=no-such-action").text
