"""The first page."""

import html
import re
import shlex
import subprocess
import sys

from tests.console.site import Browser, Serving, console_of
from wakelog.client.sync import Consumer, Producer
from wakelog.testing.embedded_broker import EmbeddedBroker


def test_what_is_wrong_is_said_with_its_remedy_and_link(
    browser: Browser, console: Serving, console_broker: EmbeddedBroker
) -> None:
    name_server = console_broker.name_server
    with Producer(name_server, group="p") as producer:
        producer.send("left", b"first")
        with Consumer(name_server, group="left-alone", topics="left", start="first") as consumer:
            next(iter(consumer)).ack()
        for _ in range(3):
            producer.send("left", b"x")
    console.read()
    answer = browser.get("/")
    line = answer.html.partition("group left-alone")[2].partition("</li>")[0]
    assert "no client is online" in line
    assert 'href="/groups/left-alone"' in line and "Start a consumer" in line
    assert "worth a look" in answer.text or "needs you" in answer.text or "need you" in answer.text


def test_a_new_cluster_shows_how_a_first_message_is_sent() -> None:
    with EmbeddedBroker() as broker, console_of(broker.name_server) as console:
        console.read()
        page = console.browser.get("/")
        for language in ("wakelog hello", "Producer(", "DefaultMQProducer"):
            assert language in page.text
        assert page.text.count(broker.name_server) == 4
        broker.create_topic("one")
        console.read()
        assert "Send a first message" not in console.browser.get("/").text


def test_what_changed_is_said_with_its_link(
    browser: Browser, console: Serving, console_broker: EmbeddedBroker
) -> None:
    console.read()
    console_broker.create_topic("came")
    console.read()
    changed = browser.get("/").html.partition("What changed")[2]
    assert '<a href="/topics/came">topic came</a> was made' in changed


def test_the_command_and_the_program_of_a_new_cluster_work_as_shown() -> None:
    with EmbeddedBroker() as broker, console_of(broker.name_server) as console:
        console.read()
        shown = re.findall(r"<pre>(.*?)</pre>", console.browser.get("/").html, re.DOTALL)
        command, program = (html.unescape(each) for each in shown[:2])
        assert command.split()[0] == "wakelog"
        words = [sys.executable, "-m", *shlex.split(command)]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        assert said.startswith("sent      to topic hello")
        words = [sys.executable, "-c", program]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        assert "queue_offset=0" in said


def test_several_name_servers_are_one_word_of_a_command(browser: Browser) -> None:
    with EmbeddedBroker() as broker, console_of(f"{broker.name_server};127.0.0.1:1") as console:
        console.read()
        page = console.browser.get("/").text
        assert f"wakelog hello '{broker.name_server};127.0.0.1:1'" in page
        assert "name server 127.0.0.1:1 : 127.0.0.1:1 does not answer" in page
