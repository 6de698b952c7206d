"""The text and the remedy of the client's errors."""

import ast
import asyncio
import pickle
import re
import ssl
from pathlib import Path

import pytest

import wakelog.client
from wakelog.client.errors import (
    ACCOUNT_REMEDY,
    CHECK_LOG,
    GIVE_TLS,
    OTHER_GROUP,
    OWN_REMEDY,
    ClientError,
    InvalidArgument,
    NoReply,
    NotAcknowledged,
    allowing_refusal,
    in_words,
    not_acknowledged,
    reason_of,
    refused,
    remedy_of,
    unanswered,
    unexpected,
    within,
)
from wakelog.network.errors import CallTimeout, ConnectFailed, RemotingError, SendFailed, TlsFailed
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer


def test_the_text_is_cause_and_remedy() -> None:
    error = NotAcknowledged("a is busy", "Wait", broker="a", code=2, remark="busy")
    assert isinstance(error, ClientError)
    assert str(error) == "a is busy. Wait"
    assert (error.broker, error.code, error.remark) == ("a", 2, "busy")


@pytest.mark.parametrize("kind", [ClientError, InvalidArgument, NotAcknowledged, NoReply])
def test_an_error_comes_whole_from_another_process(kind: type[ClientError]) -> None:
    more = {"refuses_account": True, "passes": True}
    error = kind("a is busy", "Wait", broker="a", code=2, remark="busy", **more)
    assert vars(error).items() >= more.items()
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is kind
    assert (str(found), vars(found)) == (str(error), vars(error))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TlsFailed("a:1", "no TLS"), "tls=Tls(trust_path=...)"),
        (SendFailed("a:1", "the connection was lost"), "give tls=True, or tls=Tls(cert_path=...)"),
        (CallTimeout("a:1", "no answer"), "that RocketMQ listens there"),
        (ConnectFailed("a:1", "Connection refused"), ""),
    ],
)
def test_the_remedy_depends_on_how_far_a_call_came(error: RemotingError, words: str) -> None:
    assert words in remedy_of(error)
    assert bool(words) == bool(remedy_of(error))


def test_an_error_of_the_system_has_its_words_only() -> None:
    error = ConnectFailed("a:1", "[Errno 111] Connect call failed ('a', 1)")
    assert reason_of(error) == error.reason
    error.__cause__ = ConnectionRefusedError(111, "Connect call failed ('a', 1)")
    assert reason_of(error) == "Connection refused"


def test_an_error_of_tls_is_not_taken_for_one_of_the_system() -> None:
    error = TlsFailed("a:1", "its certificate is not trusted")
    error.__cause__ = ssl.SSLCertVerificationError(1, "certificate verify failed")
    assert reason_of(error) == "its certificate is not trusted"


def test_a_call_without_an_answer_says_why_and_whether_that_passes() -> None:
    error = unanswered("a does not answer", ConnectFailed("a:1", "it is away"), "Wait", broker="a")
    assert (str(error), error.broker, error.passes) == (
        "a does not answer: it is away. Wait",
        "a",
        True,
    )
    assert not unanswered("a", TlsFailed("a:1", "no trust")).passes


def test_a_block_that_takes_too_long_is_an_error_of_the_client() -> None:
    async def wait() -> None:
        async with within(0, "a does not answer", "Wait"):
            await asyncio.Event().wait()

    with pytest.raises(ClientError, match=r"a does not answer within 0 s. Wait") as found:
        asyncio.run(wait())
    assert found.value.passes


def test_no_text_of_the_client_names_options_of_others() -> None:
    """Spark and the commands have tables of their own for what these remedies say."""
    folder = Path(wakelog.client.__file__).parent
    named = [
        f"{path.name}:{node.lineno}: {node.value}"
        for path in sorted(folder.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.search(r"\(Spark|\btls\.(client|enable)|--tls", node.value)
    ]
    assert named == []


def refusal(code: ResponseCode, remark: str | None = None) -> ClientError:
    response = answer(RemotingCommand(1), code, remark)
    return refused("a", "no", response, {int(ResponseCode.NO_PERMISSION): "Allow it"})


@pytest.mark.parametrize(
    ("code", "remark", "remedy", "passes_soon"),
    [
        (ResponseCode.NO_PERMISSION, "no", "Allow it", False),
        (ResponseCode.SYSTEM_BUSY, None, CHECK_LOG, False),
        (ResponseCode.SERVICE_NOT_AVAILABLE, "stops", CHECK_LOG, True),
        (ResponseCode.SYSTEM_ERROR, "AclException: no", ACCOUNT_REMEDY, False),
        (ResponseCode.SYSTEM_ERROR, "another", CHECK_LOG, False),
        (ResponseCode.NO_PERMISSION, "AclException: no", "Allow it", False),
    ],
)
def test_a_refusal_has_the_remedy_of_its_code(
    code: ResponseCode, remark: str | None, remedy: str, passes_soon: bool
) -> None:
    error = refusal(code, remark)
    assert (error.cause, error.remedy, error.passes) == ("no", remedy, passes_soon)
    assert error.refuses_account is (remedy == ACCOUNT_REMEDY)
    assert (error.broker, error.code, error.remark) == ("a", int(code), remark or "")


def test_a_missing_acknowledgement_says_all_that_is_known_of_the_refusal() -> None:
    failed = refusal(ResponseCode.SYSTEM_ERROR, "AclException: no")
    error = not_acknowledged("2 of 3", failed, receipts=(None,))
    assert (error.cause, error.remedy, error.receipts) == ("2 of 3", failed.remedy, (None,))
    assert (error.broker, error.code, error.remark) == ("a", failed.code, failed.remark)
    assert error.refuses_account


def test_only_a_refusal_is_allowed() -> None:
    with allowing_refusal():
        raise refusal(ResponseCode.SYSTEM_BUSY)
    with pytest.raises(ClientError, match="away"), allowing_refusal():
        raise ClientError("away", "Wait")


def test_a_remedy_may_have_other_words() -> None:
    words = {GIVE_TLS: "give --tls", OTHER_GROUP: "give --group"}
    assert in_words(f"Look, and {GIVE_TLS}; or {OTHER_GROUP}", words) == (
        "Look, and give --tls; or give --group"
    )
    assert in_words("Look", words) == "Look"


def test_what_no_code_expects_is_logged_and_named(caplog: pytest.LogCaptureFixture) -> None:
    error = unexpected("pulling", KeyError("x"))
    assert str(error) == f"pulling failed: KeyError('x'). {OWN_REMEDY}"
    assert caplog.messages == ["pulling failed"] and caplog.records[0].exc_info
