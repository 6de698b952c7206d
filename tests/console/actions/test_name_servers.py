"""Actions on name servers, through their forms."""

from tests.console.site import Browser
from wakelog.testing.embedded_broker import EmbeddedBroker


def test_a_setting_is_shown_as_it_is_and_then_changed(
    browser: Browser, console_broker: EmbeddedBroker
) -> None:
    path, fields = "/do/change-name-server-setting", {"key": "orderMessageEnable", "value": "true"}
    shown = browser.get(f"{path}?key=orderMessageEnable&value=true").text
    server = console_broker.name_server
    assert f"{server} has false now, and will have orderMessageEnable=true" in shown
    answer = browser.submit(path, **fields)
    assert answer.status == 200
    assert "wakelog admin updateNamesrvConfig -k orderMessageEnable -v true" in answer.text
    assert f"{server} has true now" in browser.get(f"{path}?key=orderMessageEnable&value=x").text
    browser.submit(path, **{**fields, "value": "false"})


def test_a_key_that_is_none_is_refused(browser: Browser) -> None:
    path = "/do/change-name-server-setting"
    assert "shows no such key" in browser.get(f"{path}?key=nothing&value=1").text
    assert browser.submit(path, key="nothing", value="1").status == 409


def test_a_value_is_set_shown_and_deleted(browser: Browser) -> None:
    page = "/name-servers?tab=values&namespace=colours"
    fields = {"namespace": "colours", "key": "sky"}
    shown = browser.get("/do/set-value?namespace=colours&key=sky&value=blue").text
    assert "sky has no value now" in shown and "1 name server" in shown
    assert browser.submit("/do/set-value", **fields, value="blue").status == 200
    assert 'id="v-sky"' in browser.get(page).html
    assert "sky is blue now" in browser.get("/do/delete-value?namespace=colours&key=sky").text
    assert browser.submit("/do/delete-value", **fields).status == 422
    assert browser.submit("/do/delete-value", **fields, typed="sky").status == 200
    assert "colours has no values" in browser.get(page).text


def test_the_order_of_a_topic_is_set_and_deleted(
    browser: Browser, console_broker: EmbeddedBroker
) -> None:
    console_broker.create_topic("steps", queues=3)
    shown = browser.get("/do/set-order?topic=steps&order=broker-a:3").text
    assert "steps has no value now" in shown
    assert "the topic has these queues now: broker-a:3" in shown
    answer = browser.submit("/do/set-order", topic="steps", order="broker-a:3")
    assert "wakelog admin updateOrderConf -t steps -m put -v broker-a:3" in answer.text
    assert "broker-a:3" in browser.get("/name-servers?tab=values").text
    assert browser.submit("/do/delete-order", topic="steps", typed="steps").status == 200
    assert "ORDER_TOPIC_CONFIG has no values" in browser.get("/name-servers?tab=values").text
