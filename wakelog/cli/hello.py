"""`wakelog hello`: send one message and pull it back, as a producer and a consumer would.

It shows that a name server and a broker work, and the order of a client's calls:

    name server   GET_ROUTEINFO_BY_TOPIC   which brokers have the topic; for a new topic, which
                                           brokers would create it (those with TBW102)
    broker        SEND_MESSAGE_V2          the message is stored: queue, offset, message id
    broker        PULL_MESSAGE             the record at that offset; held until it is dispatched

It works with any RocketMQ 4.x. With TLS it trusts servers as RocketMQ's tools do: any, unless a
tls.properties says otherwise.
"""

import os
import time
from collections.abc import Callable
from typing import Final

from wakelog.actors.errors import DeploymentFailed, PlanRefused
from wakelog.cli.stop_signals import run_interruptibly
from wakelog.client.broker_calls import BrokerCalls
from wakelog.client.errors import CHECK_LOG, ClientError
from wakelog.client.messages import EncodedMessage, SendRequest
from wakelog.client.options import ClientOptions, read_name_servers
from wakelog.client.sender import Sender
from wakelog.network.client import make_client
from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls
from wakelog.network.tls_properties import TlsSource, read_tls
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.record import decode_record

GROUP: Final = "wakelog-hello"
BODY: Final = b"hello"
HOLD_MS: Final = 2_000


def greet(
    name_server: str, topic: str, say: Callable[[str], None], tls_path: str | None = None
) -> None:
    """Send one message, pull it back, and report both.

    tls_path: a tls.properties, "" for its defaults; None for connections without TLS.

    Raises: PlanRefused if `name_server` is not HOST:PORT; TlsRefused; ClientError;
        DeploymentFailed.
    """
    try:
        addresses = read_name_servers(name_server)
    except ValueError:
        addresses = ()
    if not addresses:
        remedy = "Give one, such as 127.0.0.1:9876, or several with semicolons between."
        raise PlanRefused(f"{name_server} is no HOST:PORT", remedy) from None
    tls = None
    if tls_path is not None:
        tls = read_tls(TlsSource(config_path=tls_path, directory=os.getcwd())).client
    try:
        run_interruptibly(_greet(addresses, topic, say, tls))
    except ProtocolError as error:
        raise DeploymentFailed(
            f"a response is not as RocketMQ 4.x gives it: {error}",
            "Check which program listens there.",
        ) from error


async def _greet(
    name_servers: tuple[str, ...], topic: str, say: Callable[[str], None], tls: Tls | None
) -> None:
    options = ClientOptions(name_servers, group=GROUP, retries_max=0)
    connections = make_client(Credentials(), tls)
    try:
        began = time.perf_counter()
        stored = await Sender(connections, options).send(
            SendRequest((EncodedMessage(topic, BODY),))
        )
        sent = time.perf_counter()
        queue = stored.queue
        say(
            f"sent      to topic {topic}, {queue.broker} queue {queue.queue_id} offset "
            f"{stored.queue_offset}, in {(sent - began) * 1000:.1f} ms (id {stored.message_id})"
        )
        calls = BrokerCalls(connections, options)
        pulled = await calls.pull(queue, stored.queue_offset, 1, hold_ms=HOLD_MS)
        if not pulled.body:
            raise ClientError(
                f"{queue.broker} did not return the message: {pulled.code} ({pulled.remark})",
                CHECK_LOG,
            )
        received = decode_record(pulled.body).body
        took_ms = (time.perf_counter() - sent) * 1000
        say(f"received  {received.decode(errors='replace')!r}, in {took_ms:.1f} ms")
    finally:
        await connections.close()
