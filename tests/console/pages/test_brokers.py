"""Pages of brokers, over one."""

from tests.console.site import Browser, Serving
from wakelog.testing.embedded_broker import EmbeddedBroker


def test_the_list_shows_role_state_and_address(
    browser: Browser, console_broker: EmbeddedBroker
) -> None:
    text = browser.get("/brokers").text
    assert "master, serves" in text and console_broker.address in text
    assert "4.9.3 (wakelog " in text


def test_a_broker_shows_what_it_says_of_itself(browser: Browser, console: Serving) -> None:
    [reading] = console.console.reader.shown.brokers
    for path in (f"/brokers/{reading.name}", f"/brokers/{reading.name}/0"):
        answer = browser.get(f"{path}?tab=runtime")
        assert answer.status == 200 and 'id="r-commitLogMaxOffset"' in answer.html
    filtered = browser.get(f"/brokers/{reading.name}?tab=runtime&q=commitLogMax").html
    assert 'id="r-commitLogMaxOffset"' in filtered and 'id="r-putTps"' not in filtered


def test_a_broker_shows_its_replicas_store_and_services(
    browser: Browser, console: Serving, console_broker: EmbeddedBroker
) -> None:
    console.read()
    [reading] = console.console.reader.shown.brokers
    text = browser.get(f"/brokers/{reading.name}").text
    assert "No register decides here" in text and "0 master" in text
    assert "Last start the run before had ended in order" in text
    assert "nothing differs" in text and "Quarantine empty" in text
    assert f"wakelog log verify --store {console_broker.store}" in text
    assert "reput works" in text and "does not tell" not in text


def test_maintenance_leads_to_forms(browser: Browser, console: Serving) -> None:
    [reading] = console.console.reader.shown.brokers
    answer = browser.get(f"/brokers/{reading.name}?tab=maintenance")
    assert f"/do/stop-sends?broker={reading.name}" in answer.html
    assert "/do/clean-unused-topics?broker=" in answer.html
    assert "/do/switch-master" not in answer.html and "Not here: no register" in answer.text


def test_a_setting_is_changed_and_shown(browser: Browser, console: Serving) -> None:
    [reading] = console.console.reader.shown.brokers
    fields = {"broker": reading.address, "key": "fileReservedTime", "value": "71"}
    page = browser.get(f"/do/change-setting?broker={reading.address}&key=fileReservedTime&value=71")
    assert "fileReservedTime is 72 now, and will be 71" in page.text
    assert browser.submit("/do/change-setting", **fields).status == 200
    answer = browser.get(f"/brokers/{reading.name}?tab=configuration&q=fileReservedTime")
    assert 'data-head="Value">71<' in answer.html
    browser.submit("/do/change-setting", **{**fields, "value": "72"})


def test_a_setting_that_is_refused_says_why(browser: Browser, console: Serving) -> None:
    [reading] = console.console.reader.shown.brokers
    answer = browser.submit(
        "/do/change-setting", broker=reading.address, key="storePathRootDir", value="/tmp/x"
    )
    assert answer.status == 409 and "storePathRootDir" in answer.text


def test_a_broker_that_is_not_known_is_not_found(browser: Browser) -> None:
    assert browser.get("/brokers/nobody").status == 404
    assert browser.get("/brokers/nobody/7").status == 404
