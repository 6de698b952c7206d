"""A URL and transport options, as users write them."""

from datetime import timedelta
from typing import Any

import pytest

from wakelog.celery.options import Options, read_options, read_place, shown
from wakelog.client import InvalidArgument, Tls


@pytest.mark.parametrize(
    ("url", "alternates", "servers"),
    [
        ("rocketmq://mq:9000", [], "mq:9000"),
        ("rocketmq://mq", [], "mq:9876"),
        ("rocketmq://", [], "localhost:9876"),
        ("rocketmq://a:1,b:2", [], "a:1;b:2"),
        ("rocketmq://a:1", ["rocketmq://a:1", "b:2"], "a:1;b:2"),
        ("b:2", ["rocketmq://a:1", "b:2", "rocketmq://c:3"], "a:1;b:2"),
        ("rocketmq://c:3", ["rocketmq://a:1", "b:2", "rocketmq://c:3"], "c:3"),
    ],
)
def test_name_servers_have_commas_or_semicolons_between(
    url: str, alternates: list[str], servers: str
) -> None:
    assert read_place(url, alternates).name_servers == servers


def test_an_account_and_a_namespace_are_in_the_url() -> None:
    settings = read_place("rocketmq://user:p%40ss@mq:1/shop").settings
    assert settings["access_key"] == "user"
    assert settings["secret_key"] == "p@ss"
    assert settings["namespace"] == "shop"
    assert read_place("mq", user="u", password="p", port=7, virtual_host="/").name_servers == "mq:7"


def test_tls_is_what_kombu_calls_ssl() -> None:
    assert read_place("rocketmq://mq", ssl=True).settings["tls"] is True
    given = {"ca_certs": "ca.pem", "certfile": "c.pem", "keyfile": "k.pem"}
    tls = read_place("rocketmq://mq", ssl=given).settings["tls"]
    assert tls == Tls(trust_path="ca.pem", cert_path="c.pem", key_path="k.pem")
    with pytest.raises(InvalidArgument, match="'cert_reqs' is no setting of TLS here"):
        read_place("rocketmq://mq", ssl={"cert_reqs": 2})


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("amqp://mq", "the scheme is amqp. Give rocketmq://HOST:PORT"),
        ("rocketmq://mq?timeout=3", "the broker's URL has a query"),
    ],
)
def test_a_url_of_another_kind_is_refused(url: str, text: str) -> None:
    with pytest.raises(InvalidArgument, match=text.replace("?", r"\?")):
        read_place(url)


def test_options_have_defaults_and_take_seconds() -> None:
    assert read_options({}) == (Options(), {})
    options, settings = read_options(
        {"visibility_timeout": 90, "timeout": 1.5, "queues": 4, "prefix": "", "max_retries": 3}
    )
    assert options == Options(prefix="", queues=4, visibility_ms=90_000)
    assert settings == {"timeout": timedelta(seconds=1.5)}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"visibility_timout": 1}, r"Did you mean visibility_timeout\?"),
        ({"polling_interval": 1}, "'polling_interval' is no transport option of rocketmq"),
        ({"prefix": "a.b"}, "prefix='a.b' cannot begin a topic"),
        ({"delay_levels": "1x"}, "delay_levels='1x' are none"),
        ({"visibility_timeout": 0}, "visibility_timeout is not over 0"),
        ({"visibility_timeout": "1h"}, "visibility_timeout is '1h'.* Give seconds, or a timedelta"),
        ({"timeout": -1}, "timeout is -1.* Give 0 to 31622400 seconds"),
        ({"delay_levels": ["1s"]}, "delay_levels is .* Give a text"),
        ({"queues": 0}, "queues"),
    ],
)
def test_an_option_that_cannot_be_kept_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        read_options(given)


def test_a_password_is_not_shown() -> None:
    assert shown("rocketmq://user:secret@mq:1/shop") == "rocketmq://user:**@mq:1/shop"
    assert shown("rocketmq://mq:1") == "rocketmq://mq:1"
