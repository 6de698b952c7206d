"""The options of a client in errors and logs."""

import inspect
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from wakelog.client.consumer import Consumer
from wakelog.client.errors import InvalidArgument
from wakelog.client.options import (
    _OWN_ARGUMENTS,
    ClientOptions,
    Settings,
    make_options,
    plain_options,
    with_namespace,
    without_namespace,
)
from wakelog.client.producer import Producer
from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls

NO_PATH: Any = [5]


def test_the_text_of_options_has_no_secret() -> None:
    options = ClientOptions(
        ("a:1",), credentials=Credentials("key", "hush", "token"), tls=Tls(key_password="hush")
    )
    assert "hush" not in repr(options) and "token" not in repr(options)


def test_settings_become_options() -> None:
    settings = Settings(
        timeout=timedelta(seconds=1), access_key="a", secret_key="b", tls=True, namespace="ns"
    )
    options = make_options("a:1;b:2", "g", settings)
    assert (options.name_servers, options.group) == (("a:1", "b:2"), "ns%g")
    assert (options.timeout_ms, options.retries_max) == (1000, 3)
    assert (options.credentials, options.tls) == (Credentials("a", "b"), Tls())


@pytest.mark.parametrize(
    ("address", "group", "settings", "words"),
    [
        ("localhost", "g", {}, "'localhost' is no address. Give HOST:PORT"),
        ("", "g", {}, "no name server is given"),
        ("a:1", "a b", {}, "'a b' is no name of a group"),
        ("a:1", "g", {"secret": 1}, "unknown settings secret. Perhaps secret_key. Known: "),
        ("a:1", "g", {"topic": "T"}, "unknown settings topic. Perhaps topics. Known: access_key, "),
        ("a:1", "g", {"timeout": timedelta()}, "timeout is .*Give a time above 0"),
        ("a:1", "g", {"retries_max": -1}, "retries_max is -1, .*number of 0 or more"),
        ("a:1", "g", {"retries_max": "3"}, "retries_max is '3', "),
        ("a:1", "g", {"retries_max": True}, "retries_max is True, "),
        ("a:1", "g", {"tls": "yes"}, r"tls is 'yes', .*Give True, False or Tls\("),
        ("a:1", "g", {"namespace": 5}, "namespace is 5, .*Give a text"),
        ("a:1", None, {}, "group is None, .*Give the name of a group"),
        ("http://127.0.0.1:1", "g", {}, "'http://127.0.0.1:1' is no address. Give HOST:PORT"),
        ("a:1", "g", {"access_key": "a"}, "belong together"),
        ("a:1", "g", {"access_key": 1, "secret_key": 2}, "access_key is of type int"),
        ("a:1", "g", {"namespace": "a b"}, "namespace is 'a b', .*Give letters"),
        ("a:1", "g", {"tls": Tls(*NO_PATH)}, "trust_path is 5, .*Give a Path"),
        (5, "g", {}, "name_servers is 5, .*Give HOST:PORT"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(
    address: Any, group: Any, settings: Any, words: str
) -> None:
    with pytest.raises(InvalidArgument, match=words):
        make_options(address, group, settings)


class Name(StrEnum):
    GROUP = "billing"
    KEY = "key"


def test_a_group_and_keys_from_enums_are_plain_texts() -> None:
    settings = Settings(access_key=Name.KEY, secret_key=Name.KEY, tls=Tls(cert_path=Path("a.pem")))  # type: ignore[arg-type]
    options = make_options("a:1", Name.GROUP, settings)
    assert type(options.group) is str and options.group == "billing"
    assert {type(key) for key in options.credentials} == {str}
    assert options.tls == Tls(cert_path="a.pem")


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [("T", "ns%T"), ("%RETRY%g", "%RETRY%ns%g"), ("%DLQ%g", "%DLQ%ns%g"), ("ns%T", "ns%T")],
)
def test_a_namespace_is_behind_the_prefix_of_a_group(name: str, wrapped: str) -> None:
    assert with_namespace("ns", name) == wrapped
    assert with_namespace("", name) == name
    assert without_namespace("ns", wrapped) == name.removeprefix("ns%")
    assert without_namespace("", wrapped) == wrapped


def test_a_near_name_is_found_among_all_arguments() -> None:
    own: set[str] = set()
    for client in (Producer, Consumer):
        own |= {
            name
            for name, given in inspect.signature(client.__init__).parameters.items()
            if given.kind is inspect.Parameter.KEYWORD_ONLY
        }
    assert set(_OWN_ARGUMENTS) == own - {"connect", "now_ms"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name_servers", "a:1"), ("name_servers", (1,)), ("group", 1), ("timeout_ms", 0),
        ("timeout_ms", "1"), ("retries_max", -1), ("pause_ms", -1), ("credentials", ("a", "b", "")),
        ("credentials", Credentials(*NO_PATH)), ("tls", 1), ("namespace", None), ("dial", "a:1"),
    ],
)  # fmt: skip
def test_options_of_a_user_are_checked_too(field: str, value: Any) -> None:
    dial: Any = print
    given = ClientOptions(("a:1",), "g", 1, 0, 0, Credentials("a", "b"), Tls(), "ns", dial)
    assert plain_options(given) == given
    with pytest.raises(InvalidArgument, match="access_key" if "5" in repr(value) else field):
        plain_options(given._replace(**{field: value}))
