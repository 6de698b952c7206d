"""Requests as a broker with access control checks them: it signs them again and compares."""

import asyncio
import base64
import hashlib
import hmac
from pathlib import Path

import pytest

from tests.client.clusters import message
from tests.compat.clusters import real_cluster
from tests.network.test_client import Peer, echo
from tests.spark.remote.conftest import SEEN_SECONDS_MAX
from wakelog.client.broker_calls import BrokerCalls
from wakelog.client.errors import NotAcknowledged
from wakelog.client.messages import pack
from wakelog.client.options import ClientOptions
from wakelog.client.sender import Sender
from wakelog.network.client import make_client
from wakelog.network.signing import Credentials, sign, signature_of
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.frame import encode_frame
from wakelog.spark.options import read_options

PULL = RemotingCommand(
    int(RequestCode.PULL_MESSAGE),
    ext_fields={"topic": "T", "queueId": "0", "Zeta": "ö", "consumerGroup": "g"},
    body=b"body",
)


@pytest.mark.parametrize("token", ["", "token"])
def test_all_values_in_the_order_of_their_names_and_the_body_are_signed(token: str) -> None:
    signed = sign(PULL, Credentials("who", "hush", token))
    fields = signed.ext_fields
    # Capital letters come first, as in Java.
    content = f"who{token}ög0T"
    expected = hmac.new(b"hush", content.encode() + b"body", hashlib.sha1).digest()
    assert base64.b64decode(fields.pop("Signature")) == expected
    assert fields.pop("AccessKey") == "who"
    assert fields.pop("SecurityToken", "") == token
    assert fields == PULL.ext_fields
    assert (signed.code, signed.body) == (PULL.code, PULL.body)


@pytest.mark.parametrize("length", [0, 1, 64, 65, 200])
def test_a_key_of_any_length_signs_each_request_alone(length: int) -> None:
    key = "k" * length
    for number in range(3):
        fields = {"Signature": "another", "_UNIQUE_KEY_QUERY": "x", "b": "2", "a": str(number)}
        found = signature_of(RemotingCommand(10, ext_fields=fields, body=b"body"), key)
        expected = hmac.new(key.encode(), f"{number}2body".encode(), hashlib.sha1).digest()
        assert base64.b64decode(found) == expected
        assert fields["Signature"] == "another"


def test_a_response_is_not_signed() -> None:
    async def execute(address: str, asked: RemotingCommand) -> RemotingCommand:
        return answer(asked, 0)

    async def scenario() -> None:
        client = make_client(Credentials("who", "hush"), None, execute)
        pushed = encode_frame(RemotingCommand(307, 5))
        async with Peer(lambda asked: b"" if asked.is_response else pushed + echo(asked)) as peer:
            await client.invoke(peer.address, PULL, timeout_ms=5000)
            await client.invoke(peer.address, PULL, timeout_ms=5000)
            await client.close()
        responses = [sent for sent in peer.requests if sent.is_response]
        assert [(sent.opaque, sent.ext_fields) for sent in responses][:1] == [(5, {})]

    asyncio.run(scenario())


def test_secrets_are_not_shown() -> None:
    given = {"nameServer": "h:1", "accessKey": "who", "secretKey": "hush", "securityToken": "hsst"}
    read = read_options(given)
    assert read.remote is not None
    assert read.remote.credentials == Credentials("who", "hush", "hsst")
    assert "who" in repr(read) and "hush" not in repr(read) and "hsst" not in repr(read)


def test_without_an_access_key_nothing_is_signed() -> None:
    assert sign(PULL, Credentials()) is PULL


def test_a_client_signs_its_requests_and_its_oneway_requests() -> None:
    credentials = Credentials("who", "hush")

    async def scenario() -> None:
        client = make_client(credentials, None)
        async with Peer(echo) as peer:
            await client.invoke_oneway(peer.address, PULL)
            found = await client.invoke(peer.address, PULL, timeout_ms=5000)
            await client.close()
        assert found.body == PULL.body
        assert [sent.is_oneway for sent in peer.requests] == [True, False]
        for sent in peer.requests:
            assert sent.ext_fields == sign(PULL, credentials).ext_fields
        assert (PULL.flag, PULL.opaque) == (0, 0)

    asyncio.run(scenario())


ACCOUNTS = """
accounts:
- accessKey: wakelog-who
  secretKey: wakelog-hush
  admin: true
"""


@pytest.mark.java
@pytest.mark.process
@pytest.mark.slow
def test_the_real_broker_accepts_signed_requests_only(tmp_path: Path) -> None:
    accounts = tmp_path / "broker" / "conf" / "plain_acl.yml"
    accounts.parent.mkdir(parents=True)
    accounts.write_text(ACCOUNTS)
    known = Credentials("wakelog-who", "wakelog-hush")
    messages = [message(b"%d" % i, topic="signed") for i in range(3)]

    async def send(name_server: str, credentials: Credentials) -> int:
        client = make_client(credentials, None)
        try:
            options = ClientOptions((name_server,), credentials=credentials)
            requests = pack(messages, bytes_max=1 << 20, rows_max=50)
            await Sender(client, options).send_all(requests)
            calls = BrokerCalls(client, options)
            queues = await calls.routes.readable("signed") or []
            async with asyncio.timeout(SEEN_SECONDS_MAX):  # by the queues, a moment later
                while sum([await calls.max_offset(queue) for queue in queues]) < len(messages):
                    await asyncio.sleep(0.02)
            pulled = [await calls.pull(queue, 0, 32) for queue in queues]
            return sum(bool(each.body) for each in pulled)
        finally:
            await client.close()

    with real_cluster(tmp_path, settings={"aclEnable": "true"}) as cluster:
        assert asyncio.run(send(cluster.name_server, known)) > 0
        for wrong in (Credentials(), Credentials("wakelog-who", "guessed")):
            with pytest.raises(NotAcknowledged, match="AclException"):
                asyncio.run(send(cluster.name_server, wrong))
