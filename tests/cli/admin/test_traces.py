"""What clients record of a message, as bytes and as tables."""

import pytest

from tests.cli.admin.conftest import AdminCommand
from tests.compat.driver import wait_until
from wakelog.client.errors import ClientError

SEND = "Pub,1700000000000,region,producers,T,ID1,tag,key,127.0.0.1:1,4,7,0"
READ = "SubAfter,request,ID1,5,true,key"
NOTES = [
    SEND + ",true",
    SEND + ",OFFSET_ID,false",
    SEND + ",OFFSET_ID,true,1.2.3.4",
    READ,
    READ + ",0,1700000000001,readers",
]


def encoded(text: str) -> str:
    return text.replace(",", "\x01")


def is_traced(admin: AdminCommand, message_id: str) -> bool:
    """Whether the trace of a message is in the index."""
    try:
        return bool(admin(f"QueryMsgTraceById -i {message_id}"))
    except ClientError:
        return False


@pytest.mark.process
@pytest.mark.slow
def test_the_traces_of_a_message_are_found_by_its_id(admin: AdminCommand) -> None:
    body = "\x02".join(map(encoded, [*NOTES, READ.replace("ID1", "ID2")]))
    send = ["sendMessage", "-t", "RMQ_SYS_TRACE_TOPIC", "-k", "ID1", "-p"]
    admin(" ".join(send), body)
    wait_until(lambda: is_traced(admin, "ID1"), what="indexed")
    lines = [line.split() for line in admin("QueryMsgTraceById -i ID1")]
    heads = [line for line in lines if line[0] == "#Type"]
    assert [head[1] for head in heads] == ["#ProducerGroup"] * 3 + ["#ConsumerGroup"] * 2
    sends = [line for line in lines if line[0] == "Pub"]
    assert [line[-1] for line in sends] == ["success", "failed", "success"]
    assert ["Sub", "readers", "127.0.0.1"] in [line[:3] for line in lines]
    with pytest.raises(ClientError, match=r"no client has recorded message ID3 .* trace"):
        admin("QueryMsgTraceById -i ID3")
