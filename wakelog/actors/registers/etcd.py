"""Etcd: a register in etcd 3.4 or newer, `etcd://HOST:PORT,HOST:PORT`.

The addresses are those for clients, of one cluster. Any that answers serves. Options:

    ca=FILE            speak TLS, and trust who is signed by this
    cert=FILE key=FILE what to show as a client

Three calls of its JSON gateway are used: `kv/range`, `kv/txn` and `watch`. A version is the key's
`mod_revision`. A range is linearizable unless one asks for something else.

Source: etcd's api/etcdserverpb/rpc.proto; the gateway's paths are in its documentation.
"""

import base64
from typing import Any, Final

from wakelog.actors.registers.json_calls import Endpoints, HttpAnswer, trusting
from wakelog.actors.registers.register import (
    NO_VERSION,
    NOTHING,
    AnswerLost,
    Held,
    RegisterAddress,
    RegisterRefused,
    RegisterUnreachable,
    StaleVersion,
    check_key,
    watch_by,
)

REFUSALS: Final = frozenset({400, 401, 403, 404})
"""Statuses of a call that etcd has not carried out, whatever its members' state."""


class Etcd:
    """The register of one etcd cluster."""

    def __init__(self, address: RegisterAddress) -> None:
        """Ask nothing yet. Raises: RegisterRefused."""
        options = address.checked_options("ca", "cert", "key")
        if "@" in address.place:
            raise RegisterRefused(
                "an etcd address has no user and password here", "Use client certificates."
            )
        tls = None
        if options:
            if "ca" not in options:
                raise RegisterRefused(f"{address.text} has no ca=FILE", "Name who signs.")
            tls = trusting(options["ca"], options.get("cert", ""), options.get("key", ""))
        self._members = Endpoints([one.strip() for one in address.place.split(",")], tls)
        self._cluster_id = ""

    def read(self, key: str) -> Held:
        """Return the value and its version."""
        return self._read(key)[0]

    def replace(self, key: str, value: bytes, version: str) -> str:
        """Replace the value if it still has this version; return the new one."""
        check_key(key)
        name = _encode(key.encode())
        compare = {
            "key": name, "target": "MOD", "result": "EQUAL", "mod_revision": version or "0",
        }  # fmt: skip
        put = {"request_put": {"key": name, "value": _encode(value)}}
        answer = self._members.change(
            "POST", "/v3/kv/txn", {"compare": [compare], "success": [put]}
        )
        if answer.status != 200 and answer.status not in REFUSALS:
            raise AnswerLost(f"{answer.member}: {answer.remark}")
        revision = self._revision(answer)
        if not answer.body.get("succeeded"):
            raise StaleVersion(f"{key} has not version {version!r} any more")
        return revision

    def watch(self, key: str, version: str, seconds_max: float) -> Held:
        """Return what is held as soon as it has another version, at the latest in time."""
        revision = ""

        def read() -> Held:
            nonlocal revision
            held, revision = self._read(key)
            return held

        def wait_change(_held: Held, seconds: float) -> bool:
            wanted = {"key": _encode(key.encode()), "start_revision": str(int(revision) + 1)}
            call = {"create_request": wanted}
            with self._members.stream("POST", "/v3/watch", seconds, call) as lines:
                for line in lines:
                    found: dict[str, Any] = line.get("result") or {}
                    if found.get("events"):
                        return True
                    if found.get("canceled") or "error" in line:  # also: compacted
                        return False
                return lines.is_over

        return watch_by(read, wait_change, version, seconds_max)

    def close(self) -> None:
        """Nothing is open between calls."""

    def _read(self, key: str) -> tuple[Held, str]:
        """Return what is held, and the revision of all of etcd at that moment."""
        check_key(key)
        answer = self._members.ask("POST", "/v3/kv/range", {"key": _encode(key.encode())})
        revision = self._revision(answer)
        try:
            found = answer.body.get("kvs") or []
            held = NOTHING
            if found:
                value = base64.b64decode(found[0].get("value", ""), validate=True)
                held = Held(value, str(int(found[0]["mod_revision"])))
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise _no_etcd(answer) from error
        return held, revision

    def _revision(self, answer: HttpAnswer) -> str:
        """Return the revision in an answer's header. Raises: RegisterRefused, Unreachable."""
        if answer.status in REFUSALS:
            cause = f"etcd at {answer.member} refuses the call: {answer.remark}"
            raise RegisterRefused(cause, "It has to be etcd 3.4 or newer, without user accounts.")
        if answer.status != 200:
            raise RegisterUnreachable(f"{answer.member}: {answer.remark}")
        try:
            header = answer.body["header"]
            cluster_id, revision = str(header["cluster_id"]), str(int(header["revision"]))
        except (KeyError, ValueError, TypeError) as error:
            raise _no_etcd(answer) from error
        if self._cluster_id and cluster_id != self._cluster_id:
            cause = f"{answer.member} belongs to another etcd cluster than the member before"
            raise RegisterRefused(cause, "Name members of one cluster.")
        self._cluster_id = cluster_id
        return revision


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _no_etcd(answer: HttpAnswer) -> RegisterRefused:
    return RegisterRefused(
        f"{answer.member} does not answer as etcd does", "Name the addresses for clients."
    )


assert not NO_VERSION  # `mod_revision` 0 is that of a key that is not there
