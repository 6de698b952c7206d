"""KubernetesLease: a register in Leases of Kubernetes, `kubernetes://NAMESPACE/NAME`.

Each group has the Lease `NAME-<its key>`. The value is an annotation of it, so `kubectl get lease
-o yaml` shows it. A version is the Lease's `resourceVersion`: the API server refuses an update that
names another one. In a pod, its service account is used. Options, for elsewhere:

    server=URL         of the API server
    ca=FILE            who signs for it
    token=FILE         a bearer token, read at each call because it is exchanged while in use

The account needs the verbs get, watch, create and update on `leases` of `coordination.k8s.io`.

Source: the API conventions of Kubernetes ("Concurrency control and consistency").
"""

import hashlib
import os
import re
from typing import Any, Final
from urllib.parse import quote, urlsplit

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

ACCOUNT_FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
API: Final = "coordination.k8s.io/v1"
VALUE: Final = "wakelog-state"
KEY: Final = "wakelog-key"
NAME_CHARACTERS_MAX: Final = 63
DIGEST_CHARACTERS: Final = 8

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")
_CREATED = (200, 201)
_CONFLICT = 409
_NOT_FOUND = 404
_TOO_MANY = 429
"""Kubernetes has done nothing of a call that it answers so."""


class KubernetesLease:
    """The register of one namespace and name."""

    def __init__(self, address: RegisterAddress) -> None:
        """Ask nothing yet. Raises: RegisterRefused."""
        options = address.checked_options("server", "ca", "token")
        namespace, _, name = address.place.partition("/")
        if not (_LABEL.fullmatch(namespace) and _LABEL.fullmatch(name)):
            cause = f"{address.text} names no namespace and name"
            raise RegisterRefused(cause, "Give kubernetes://NAMESPACE/NAME, in a-z, 0-9 and -.")
        self._namespace, self._name = namespace, name
        server = urlsplit(options.get("server") or _server_of_pod(address))
        if server.scheme not in ("http", "https") or not server.hostname:
            raise RegisterRefused(
                f"server={options.get('server')} is no URL",
                "Give the API server's, with its scheme.",
            )
        is_tls = server.scheme == "https"
        self._token_path = options.get("token", "")
        if not self._token_path and "server" not in options:
            self._token_path = os.path.join(ACCOUNT_FOLDER, "token")
        ca = options.get("ca") or os.path.join(ACCOUNT_FOLDER, "ca.crt")
        host = f"[{server.hostname}]" if ":" in server.hostname else server.hostname
        port = server.port or (443 if is_tls else 80)
        self._members = Endpoints([f"{host}:{port}"], trusting(ca) if is_tls else None)
        self._path = f"/apis/{API}/namespaces/{namespace}/leases"
        self._seen: dict[str, dict[str, Any]] = {}

    def read(self, key: str) -> Held:
        """Return the value and its version."""
        name = self.lease_name(key)
        answer = self._members.ask("GET", f"{self._path}/{name}", **self._headers())
        if answer.status == _NOT_FOUND:
            return NOTHING
        self._check(answer)
        return self._held(key, answer)

    def replace(self, key: str, value: bytes, version: str) -> str:
        """Replace the value if it still has this version; return the new one."""
        name, headers = self.lease_name(key), self._headers()
        lease = self._lease(key, value, version)
        if version == NO_VERSION:
            answer = self._members.change("POST", self._path, lease, **headers)
        else:
            answer = self._members.change("PUT", f"{self._path}/{name}", lease, **headers)
        if answer.status == _CONFLICT or (answer.status == _NOT_FOUND and version != NO_VERSION):
            raise StaleVersion(f"Lease {name} has not version {version!r} any more")
        if answer.status == _TOO_MANY:
            raise RegisterUnreachable(f"{answer.member} has too much to do: {answer.remark}")
        if answer.status >= 500:
            raise AnswerLost(f"{answer.member}: {answer.remark}")
        self._check(answer)
        return self._held(key, answer).version

    def watch(self, key: str, version: str, seconds_max: float) -> Held:
        """Return what is held as soon as it has another version, at the latest in time."""
        chosen = quote(f"metadata.name={self.lease_name(key)}", safe="")

        def wait_change(held: Held, seconds: float) -> bool:
            path = f"{self._path}?watch=1&fieldSelector={chosen}&timeoutSeconds={int(seconds) + 1}"
            if held.version != NO_VERSION:
                path += f"&resourceVersion={quote(held.version, safe='')}"
            with self._members.stream("GET", path, seconds, **self._headers()) as lines:
                for line in lines:
                    if line.get("type") == "ERROR":  # also: the history is too old
                        return False
                    if line.get("type") != "BOOKMARK":
                        return True
                return lines.is_over

        return watch_by(lambda: self.read(key), wait_change, version, seconds_max)

    def close(self) -> None:
        """Nothing is open between calls."""

    def lease_name(self, key: str) -> str:
        """Return the Lease of a key: readable, and another one for each key."""
        check_key(key)
        digest = hashlib.sha256(key.encode()).hexdigest()[:DIGEST_CHARACTERS]
        readable = _NOT_IN_A_NAME.sub("-", f"{self._name}-{key.lower()}")
        return f"{readable[: NAME_CHARACTERS_MAX - DIGEST_CHARACTERS - 1].strip('-')}-{digest}"

    def _lease(self, key: str, value: bytes, version: str) -> dict[str, Any]:
        """Return the object to send: what was read, with another value."""
        seen = self._seen.get(key, {})
        if seen.get("metadata", {}).get("resourceVersion") != version:
            seen = {}
        metadata = {**seen.get("metadata", {}), "name": self.lease_name(key)}
        metadata["namespace"] = self._namespace
        own = {VALUE: value.decode(), KEY: key}
        metadata["annotations"] = {**metadata.get("annotations", {}), **own}
        if version != NO_VERSION:
            metadata["resourceVersion"] = version
        spec = seen.get("spec") or {"holderIdentity": self._name}
        return {"apiVersion": API, "kind": "Lease", "metadata": metadata, "spec": spec}

    def _held(self, key: str, answer: HttpAnswer) -> Held:
        try:
            metadata = answer.body["metadata"]
            annotations = metadata.get("annotations") or {}
            version = metadata["resourceVersion"]
            if answer.body["kind"] != "Lease" or not (isinstance(version, str) and version):
                raise KeyError("kind")
        except (KeyError, TypeError, AttributeError) as error:
            cause = f"{answer.member} does not answer as Kubernetes does"
            raise RegisterRefused(cause, "Look at server=.") from error
        if annotations.get(KEY) != key or VALUE not in annotations:
            cause = f"Lease {self.lease_name(key)} was not made by wakelog for {key}"
            raise RegisterRefused(cause, "Name another kubernetes://NAMESPACE/NAME.")
        self._seen[key] = answer.body
        return Held(annotations[VALUE].encode(), version)

    def _headers(self) -> dict[str, str]:
        if not self._token_path:
            return {}
        try:
            with open(self._token_path, encoding="ascii") as file:
                return {"Authorization": f"Bearer {file.read().strip()}"}
        except (OSError, UnicodeDecodeError) as error:
            cause = f"the token of the service account: {error}"
            raise RegisterRefused(cause, "Mount the account, or name token=FILE.") from error

    def _check(self, answer: HttpAnswer) -> None:
        """Raises: RegisterRefused for an answer that trying again does not change."""
        if answer.status in _CREATED:
            return
        cause = f"Kubernetes refuses leases in {self._namespace}: {answer.remark}"
        remedy = "The account needs get, watch, create and update on leases of coordination.k8s.io."
        raise RegisterRefused(cause, remedy)


def _server_of_pod(address: RegisterAddress) -> str:
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    if not host:
        raise RegisterRefused(
            f"{address.text}: this process is not in a pod of Kubernetes",
            "Name server=URL, ca=FILE and token=FILE.",
        )
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
