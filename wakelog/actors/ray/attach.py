"""Attach: clients that reach wakelog by the handles of its actors, in tasks, actors and drivers.

    cluster = wakelog.attach()
    async with Producer(cluster, group="api") as producer: ...

A driver that is in no Ray joins that of `wakelog up`, which notes in its directory how. A task or
an actor is in a Ray already, and so may a driver be.

Invariants: importing this module does not import Ray.

Source: none upstream.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

from wakelog.actors.ray.options import NAMESPACE, find_actor
from wakelog.actors.ray.private_ray import RayFailed, prepare_driver, running_rays
from wakelog.actors.ray.private_ray import join as join_ray
from wakelog.client.errors import ClientError
from wakelog.client.plain import check_flags, not_accepted, plain_text
from wakelog.network.call_link import CallLink
from wakelog.network.call_transport import CallAnswer
from wakelog.network.local_socket import connect_locally

NAME_SERVER: Final = "NameServer"
BROKER_SUFFIX: Final = ".Broker"
ADDRESS_SECONDS_MAX: Final = 30.0
"""How long the name server's actor may take to say its address."""

_START: Final = "Start one with `wakelog up`, as the same user, or call ray.init before"
_SAME: Final = "Use the Python and the Ray of that `wakelog up`, to the last digit"

Result = TypeVar("Result")


def attach(name_server: Any = NAME_SERVER, *, by_calls: bool = False) -> "ActorCluster":
    """Return the cluster of this Ray, to be given to clients in the place of an address.

    name_server: the handle or the name of its name server's actor; or the HOST:PORT of `wakelog
        up`, for a process without Ray where several run. In a Ray it is compared with that of its
        wakelog.
    by_calls: every byte goes by calls of Ray, as it does from another host.
    Raises: ClientError if Ray is not installed, no wakelog runs, several do, or another one than
        that of the address; InvalidArgument.
    """
    check_flags(by_calls=by_calls)
    if isinstance(name_server, str):
        name_server = plain_text("name_server", name_server)
    elif not hasattr(name_server, "open_channel"):
        raise not_accepted(
            "name_server", name_server, "HOST:PORT, or the name or handle of an actor"
        )
    try:
        import ray
    except ImportError:
        raise ClientError("Ray is not installed", "Install wakelog with its extra ray") from None
    address = name_server if isinstance(name_server, str) and ":" in name_server else ""
    is_joined = not ray.is_initialized()
    if is_joined:
        _join(address)
    name = NAME_SERVER if address else name_server
    handle = find_actor(name) if isinstance(name, str) else name
    if handle is None:
        raise ClientError(f"this Ray has no actor {name!r} of wakelog", _START)
    if address and not is_joined:
        _check_address(handle, address)
    return ActorCluster(handle, by_calls=by_calls)


def _check_address(handle: Any, wanted: str) -> None:
    """Check that an actor is the name server of an address. Raises: ClientError."""
    import ray
    from ray.exceptions import RayError

    try:
        own = ray.get(handle.address.remote(), timeout=ADDRESS_SECONDS_MAX)
    except RayError as error:
        cause = f"the name server of this Ray does not say its address: {type(error).__name__}"
        raise ClientError(cause, _START) from error
    if own != wanted:
        cause = f"this process is in the Ray of the name server {own}, not of {wanted}"
        remedy = f"Give no address, or that one; reach the other by TCP, as Producer({wanted!r})"
        raise ClientError(cause, remedy)


def _join(name_server: str) -> None:
    """Join the Ray of the only `wakelog up` on this host, or of that with this name server.

    Raises: ClientError.
    """
    running = running_rays()
    if not running:
        raise ClientError("no wakelog of this user runs on this host", _START)
    found = [each for each in running if name_server in ("", each.name_server)]
    if len(found) != 1:
        addresses = ", ".join(each.name_server for each in running)
        cause = f"{name_server} is none of" if name_server else "several run, with"
        remedy = f"Give one of them, as wakelog.attach({running[0].name_server!r})"
        raise ClientError(f"{cause} the name servers {addresses}", remedy)
    try:
        prepare_driver(found[0].environment, is_plain=found[0].is_plain)
        join_ray(found[0].address)
    except RayFailed as error:
        cause = " ".join(str(error).split()).removesuffix(".")
        raise ClientError(
            cause, _SAME if "version mismatch" in cause.lower() else _START
        ) from error


class ActorCluster:
    """The actors of a deployment, as clients reach them; it can be given to tasks and actors.

    Brokers are found by the address that routes name, each when it is first needed. On its host,
    an actor is reached over its local socket, on others by calls.
    """

    name_servers = (NAME_SERVER,)

    def __init__(self, name_server: Any, *, by_calls: bool = False) -> None:
        """name_server: the handle of its actor."""
        self._name_server = name_server
        self._by_calls = by_calls

    def __repr__(self) -> str:
        """Name the actor."""
        by_calls = ", by_calls=True" if self._by_calls else ""
        return f"ActorCluster({self._name_server!r}{by_calls})"

    async def dial(self, address: str, protocol: asyncio.Protocol) -> None:
        """Connect a protocol to an actor (client.options.Dialed). Raises: ConnectionError."""
        handle = self._name_server if address == NAME_SERVER else await _find_broker(address)
        name = "" if self._by_calls else await _answer(handle.local_socket.remote())
        if not (name and await connect_locally(name, protocol)):
            await CallLink(ActorPeer(handle), protocol).open()


async def _find_broker(address: str) -> Any:
    from ray.util import list_named_actors

    for actor in await asyncio.to_thread(list_named_actors, all_namespaces=True):
        if actor["namespace"] != NAMESPACE or not actor["name"].endswith(BROKER_SUFFIX):
            continue
        handle = find_actor(actor["name"])
        if handle is not None and await _answer(handle.address.remote()) == address:
            return handle
    raise ConnectionError("no broker of this Ray has that address")


class ActorPeer:
    """An actor as a `CallPeer`."""

    def __init__(self, handle: Any) -> None:
        """handle: of a `ChannelActor`."""
        self._handle = handle

    async def open_channel(self) -> str | None:
        """See CallPeer. Raises: ConnectionError, as each call here."""
        channel: str | None = await _answer(self._handle.open_channel.remote())
        return channel

    async def exchange(self, channel: str, number: int, data: bytes) -> CallAnswer:
        """See CallPeer. Ray puts what is over 100 KiB into its object store, by reference."""
        return CallAnswer(*await _answer(self._handle.exchange.remote(channel, number, data)))

    async def close_channel(self, channel: str, number: int, data: bytes) -> None:
        """See CallPeer."""
        await _answer(self._handle.close_channel.remote(channel, number, data))


async def _answer(reference: Awaitable[Any]) -> Any:
    from ray.exceptions import RayError

    try:
        return await reference
    except RayError as error:
        raise ConnectionError(str(error).splitlines()[0]) from error
