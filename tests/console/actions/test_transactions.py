"""What is said before a half message is checked again."""

import asyncio

import pytest

from tests.client.clusters import MESSAGE_ID, NAME_SERVER, FakeCluster
from tests.fakes.records import properties, record
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.options import ClientOptions
from wakelog.console.actions.table import ACTIONS
from wakelog.protocol.bodies import Connection, ProducerConnection
from wakelog.protocol.body_codec import encode_body
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer

ACTION = ACTIONS["check-again"]
HALF = {"REAL_TOPIC": "orders", "PGROUP": "payments", "TRANSACTION_CHECK_TIMES": "15"}


def before(producers: int, given: dict[str, str]) -> list[str]:
    """Return what is said of a message with these properties, with so many producers online."""

    def give(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if command.code == Code.VIEW_MESSAGE_BY_ID:
            return answer(command, ResponseCode.SUCCESS, body=record(255, properties(**given)))
        if command.code == Code.GET_PRODUCER_CONNECTION_LIST:
            if not producers:
                return answer(command, ResponseCode.SYSTEM_ERROR, "not online")
            found = ProducerConnection([Connection(f"p{n}") for n in range(producers)])
            return answer(command, ResponseCode.SUCCESS, body=encode_body(found))
        return None

    async def main() -> list[str]:
        cluster = FakeCluster(routes={"orders": {"a": 1}})
        cluster.fail = give
        admin = Admin(cluster, ClientOptions((NAME_SERVER,), retries_max=0))
        assert ACTION.preview is not None
        return await ACTION.preview(admin, {"id": MESSAGE_ID})

    return asyncio.run(main())


def test_it_says_how_often_the_group_was_asked_and_how_many_can_be() -> None:
    said = before(2, HALF)
    assert said[0].startswith("1 half message of topic orders is put back; its 15 checks")
    assert said[1] == "of producer group payments 2 clients are online to be asked"


def test_it_says_that_a_group_without_clients_is_asked_in_vain() -> None:
    assert before(0, HALF)[1].endswith("0 clients are online to be asked: without one it is given "
                                       "up again")  # fmt: skip


def test_another_message_is_refused() -> None:
    with pytest.raises(ClientError, match="no half message"):
        before(1, {"KEYS": "k"})
