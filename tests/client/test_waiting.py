"""What operators ask about messages that wait, and about half messages given up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from tests.client.clusters import MESSAGE_ID, NAME_SERVER, FakeCluster
from tests.fakes.records import record
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.options import ClientOptions
from wakelog.client.waiting import (
    DueEntry,
    delay_offsets,
    due_at,
    entries_at,
    message_at,
    resume_check,
)
from wakelog.protocol.bodies import ConsumeQueueData, QueryConsumeQueueResponseBody
from wakelog.protocol.body_codec import encode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer

BROKER = "a:10911"
Result = TypeVar("Result")


def ask(
    body: bytes, work: Callable[[Admin], Awaitable[Result]]
) -> tuple[Result, list[RemotingCommand]]:
    """Return what work returns at a broker that answers with this body, and what it was asked."""
    asked: list[RemotingCommand] = []

    def give(address: str, command: RemotingCommand) -> RemotingCommand:
        asked.append(command)
        return answer(command, ResponseCode.SUCCESS, body=body)

    async def main() -> Result:
        cluster = FakeCluster()
        cluster.fail = give
        return await work(Admin(cluster, ClientOptions((NAME_SERVER,), retries_max=0)))

    return asyncio.run(main()), asked


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"offsetTable":{2:1,18:"7"}}', {2: 1, 18: 7}),  # as fastjson writes it
        (b'{"offsetTable":{}}', {}),
        (b'{"offsetTable":null}', {}),
        (b"", {}),
    ],
)
def test_delay_offsets_come_by_level(body: bytes, expected: dict[int, int]) -> None:
    found, [command] = ask(body, lambda admin: delay_offsets(admin, BROKER))
    assert (found, command.code) == (expected, RequestCode.GET_ALL_DELAY_OFFSET)


@pytest.mark.parametrize("body", [b"{", b"[1]", b'{"offsetTable":{"a":1}}', b'{"offsetTable":[7]}'])
def test_an_answer_that_is_no_table_is_an_error(body: bytes) -> None:
    with pytest.raises(ClientError, match=r"GET_ALL_DELAY_OFFSET cannot be read"):
        ask(body, lambda admin: delay_offsets(admin, BROKER))


def test_the_time_of_an_entry_is_its_tags_code() -> None:
    entry = ConsumeQueueData(100, 50, 1_700_000_000_000)
    body = QueryConsumeQueueResponseBody(queue_data=[entry], min_queue_index=3, max_queue_index=9)
    found, [command] = ask(encode_body(body), lambda admin: due_at(admin, BROKER, 2, 4))
    assert found == DueEntry(3, 9, 1_700_000_000_000)
    assert command.code == RequestCode.QUERY_CONSUME_QUEUE
    fields = command.ext_fields
    assert (fields["topic"], fields["queueId"]) == ("SCHEDULE_TOPIC_XXXX", "1")
    assert (fields["index"], fields["count"]) == ("4", "1")


def test_entries_are_asked_for_by_queue_and_offset() -> None:
    found_body = QueryConsumeQueueResponseBody(
        queue_data=[ConsumeQueueData(100, 50), ConsumeQueueData(150, 50)], max_queue_index=9
    )
    body = encode_body(found_body)
    found, [command] = ask(body, lambda admin: entries_at(admin, BROKER, "T", 3, 7, 2))
    assert (found.begin, found.end) == (0, 9)
    assert [each.physic_offset for each in found.entries] == [100, 150]
    expected = {"topic": "T", "queueId": "3", "index": "7", "count": "2"}
    assert command.ext_fields == expected


def test_a_message_is_asked_for_by_its_place_in_the_log() -> None:
    stored = record(255, body=b"7")
    found, [command] = ask(stored, lambda admin: message_at(admin, BROKER, 255))
    assert (found.body, found.physical_offset) == (b"7", 255)
    assert (command.code, command.ext_fields) == (RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "255"})
    with pytest.raises(ClientError, match="VIEW_MESSAGE_BY_ID cannot be read"):
        ask(b"nonsense", lambda admin: message_at(admin, BROKER, 255))


def test_an_offset_without_an_entry_has_no_time() -> None:
    found, _ = ask(b"", lambda admin: due_at(admin, BROKER, 2, 4))
    assert found == DueEntry(0, 0, 0)


def test_a_check_is_resumed_at_the_broker_that_the_id_names() -> None:
    found, [command] = ask(b"", lambda admin: resume_check(admin, MESSAGE_ID))
    assert found == "127.0.0.1:10911"
    assert command.code == RequestCode.RESUME_CHECK_HALF_MESSAGE
    assert command.ext_fields == {"msgId": MESSAGE_ID}


def test_an_id_that_names_no_broker_is_refused_without_asking() -> None:
    with pytest.raises(ClientError, match="malformed message id"):
        ask(b"", lambda admin: resume_check(admin, "no id"))
