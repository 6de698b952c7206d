"""Tests of the numbers that peers and the specification agree on."""

import pytest

from wakelog.protocol.codes import (
    LANGUAGE_BY_NAME,
    LANGUAGE_BY_NUMBER,
    LanguageCode,
    RequestCode,
    ResponseCode,
    language_name,
)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (10, "SEND_MESSAGE"),
        (11, "PULL_MESSAGE"),
        (34, "HEART_BEAT"),
        (36, "CONSUMER_SEND_MSG_BACK"),
        (40, "NOTIFY_CONSUMER_IDS_CHANGED"),
        (105, "GET_ROUTEINFO_BY_TOPIC"),
        (224, "GET_TOPICS_BY_CLUSTER"),
        (310, "SEND_MESSAGE_V2"),
        (320, "SEND_BATCH_MESSAGE"),
        (327, "ADD_WRITE_PERM_OF_BROKER"),
        (328, "GET_ALL_PRODUCER_INFO"),
        (351, "GET_TOPIC_CONFIG"),
        (352, "GET_SUBSCRIPTIONGROUP_CONFIG"),
    ],
)
def test_request_codes_are_upstreams(code: int, name: str) -> None:
    assert RequestCode(code).name == name


def test_all_94_request_codes_of_4_9_3_are_there() -> None:
    assert len([code for code in RequestCode if code <= 327]) == 94


def test_response_codes_are_those_the_specification_lists() -> None:
    assert {code.value for code in ResponseCode} == {*range(5), *range(10, 29), *range(200, 212)}


def test_languages_are_numbered_in_upstreams_order() -> None:
    order = "JAVA CPP DOTNET PYTHON DELPHI ERLANG RUBY OTHER HTTP GO PHP OMS"
    assert " ".join(LANGUAGE_BY_NUMBER[number].name for number in range(12)) == order
    assert " ".join(LANGUAGE_BY_NAME) == order


@pytest.mark.parametrize(
    ("language", "name"),
    [(0, "JAVA"), (LanguageCode.GO, "GO"), (200, "OTHER"), ("RUST", "RUST"), ("CPP", "CPP")],
)
def test_a_language_is_named_whatever_it_came_as(language: int | str, name: str) -> None:
    assert language_name(language) == name
