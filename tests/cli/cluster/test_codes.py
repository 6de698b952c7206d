"""What codes mean."""

from tests.cli.cluster.conftest import CommandLine
from wakelog.cli.cluster.codes import MEANINGS, explain_code
from wakelog.protocol.codes import RequestCode, ResponseCode


def test_every_code_is_explained_by_number_and_name() -> None:
    for code in (*ResponseCode, *RequestCode):
        by_number = explain_code(str(code.value))
        [by_name] = [x for x in explain_code(code.name) if x.code == code.value]
        assert by_name in by_number
        assert by_name.when.endswith(".")


def test_a_number_may_be_two_codes(cli: CommandLine) -> None:
    assert [(x["kind"], x["name"]) for x in cli.json("explain", "17")] == [
        ("response", "TOPIC_NOT_EXIST"), ("request", "UPDATE_AND_CREATE_TOPIC")
    ]  # fmt: skip
    assert cli("explain", "send_message")[1].strip() == (
        "Store one message or a batch. Answered by a broker, in lane send."
    )
    cli("explain", "999", code=2)
    assert "4.9.3 has no code '999'" in cli.err


def test_what_is_stored_all_the_same_says_so() -> None:
    for code in (ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE):
        assert "is stored" in MEANINGS[code].when
