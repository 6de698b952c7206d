"""Options and columns of a write, and the errors for wrong ones."""

import pytest

from wakelog.client.options import ClientOptions
from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls
from wakelog.spark.errors import OptionError
from wakelog.spark.sink.options import WriteOptions, check_columns, read_write_options

SERVER = {"nameServer": "a:1"}


def test_options_are_read_without_case_and_those_of_spark_are_ignored() -> None:
    given = {
        "NAMESERVER": "a:9876; b:9877",
        "topic": "T",
        "producergroup": "g",
        "retryTimesWhenSendFailed": "5",
        "sendMsgTimeout": "100",
        "batchBytes": "1000",
        "batchRows": "7",
        "queryId": "q",
        "accessKey": "a",
        "secretKey": "s",
        "securityToken": "t",
        "checkpointLocation": "/somewhere",
        "path": "/else",
    }
    credentials = Credentials("a", "s", "t")
    client = ClientOptions(("a:9876", "b:9877"), "g", 100, 5, credentials=credentials)
    expected = WriteOptions(client, "T", 1000, 7, "q")
    assert read_write_options(given) == expected
    client = ClientOptions(("a:1",), "wakelog-spark", retries_max=2)
    assert read_write_options({"namesrvAddr": "a:1"}) == WriteOptions(client)
    without = {**SERVER, "tls.enable": "true", "tls.client.authServer": "false"}
    assert read_write_options(without).client.tls == Tls(checks_server=False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "nameServer is missing"),
        ({"nameServer": "a"}, "HOST:PORT"),
        ({"nameServer": "a:70000"}, "HOST:PORT"),
        ({"nameServer": ";"}, "HOST:PORT"),
        ({**SERVER, "topc": "T"}, "did you mean 'topic'?"),
        ({**SERVER, "group": "g"}, "did you mean 'producerGroup'?"),
        ({**SERVER, "tls.client.authServer": "false"}, "authServer goes with tls.enable true"),
        ({**SERVER, "tls.enabled": "true"}, "did you mean 'tls.enable'?"),
        ({**SERVER, "retryTimesWhenSendFailed": "-1"}, "a number from 0 to 100"),
        ({**SERVER, "producerGroup": "a b"}, "printable ASCII"),
        ({**SERVER, "namesrvAddr": "b:1"}, "mean the same, and have two values"),
        ({**SERVER, "accessKey": "a"}, "accessKey and secretKey go together"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words.replace("?", r"\?")):
        read_write_options(options)


def test_columns_have_our_names_or_those_of_kafka() -> None:
    options = WriteOptions(ClientOptions(), topic="T")
    assert check_columns({"value": "binary", "key": "binary"}, options) == ("body", "keys")
    columns = {"BODY": "string", "topic": "string", "queueid": "int", "flag": "int"}
    options = WriteOptions(ClientOptions())
    assert check_columns(columns, options) == ("body", "topic", "queueId", "flag")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"body": "binary"}, "no topic is named"),
        ({"topic": "string"}, "column body .or value. is missing"),
        ({"body": "int"}, "of type int, not binary or string"),
        ({"body": "binary", "value": "binary"}, "there twice"),
        ({"body": "binary", "tag": "string"}, "did you mean 'tags'?"),
        ({"body": "binary", "topic": "string", "brokerName": "string"}, "needs a column queueId"),
    ],
)
def test_a_wrong_column_is_named(columns: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words.replace("?", r"\?")):
        check_columns(columns, WriteOptions(ClientOptions()))
