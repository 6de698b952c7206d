"""An API server of Kubernetes that knows Leases only, and obeys the rules about versions.

- `resourceVersion` grows with each write of any object, and is text.
- An update that names another version than the object has is refused with 409 Conflict.
- An update that names none is carried out: it is the caller who must not do that.
- A second creation is refused with 409 AlreadyExists. One that names a version is refused with 400.
- A watch from a version sends each later event, and without one first what is there, as ADDED.
- A watch from before the kept history gets one ERROR event with the code 410.
- Without the right bearer token the answer is 401. An unknown namespace is 404.

Source: the API conventions of Kubernetes; client-go's fakes have no such checks.
"""

import copy
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

NAMESPACE = "messages"
TOKEN = "a-token"
PREFIX = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
HISTORY_MAX = 100


class FakeKubernetes:
    """Listens for as long as a `with` block lasts. What it holds outlives `restart`."""

    def __init__(self) -> None:
        self.leases: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.version = 1_000
        self.changed = threading.Condition()
        self.forced_status = 0
        self.port = 0
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop()

    def restart(self) -> None:
        """End all connections, and listen on the same port again."""
        self._stop()
        self._start()

    def forget_history(self) -> None:
        """Keep objects and no event, as after a compaction."""
        with self.changed:
            self.version += 1
            self.history.clear()

    def _start(self) -> None:
        self.is_closed = False
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", self.port), type("Handler", (_Handler,), {"fake": self})
        )
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def _stop(self) -> None:
        with self.changed:
            self.is_closed = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def write(self, verb: str, name: str, lease: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Create or update, and return the status and the answer."""
        with self.changed:
            metadata = lease.get("metadata") or {}
            held = self.leases.get(name)
            given = metadata.get("resourceVersion", "")
            if lease.get("kind") != "Lease" or not name or metadata.get("name") != name:
                return _status(422, "Invalid")
            if verb == "POST" and given:
                return _status(400, "resourceVersion should not be set on objects to be created")
            if verb == "POST" and held is not None:
                return _status(409, "AlreadyExists")
            if verb == "PUT" and held is None:
                return _status(404, "NotFound")
            if held is not None and given and given != held["metadata"]["resourceVersion"]:
                return _status(409, "Conflict: the object has been modified")
            self.version += 1
            stored = copy.deepcopy(lease)
            stored["metadata"]["resourceVersion"] = str(self.version)
            self.leases[name] = stored
            self.history.append((self.version, "ADDED" if held is None else "MODIFIED", stored))
            del self.history[:-HISTORY_MAX]
            self.changed.notify_all()
            return (201 if held is None else 200), stored


def _status(code: int, message: str) -> tuple[int, dict[str, Any]]:
    return code, {"kind": "Status", "status": "Failure", "message": message, "code": code}


class _Handler(BaseHTTPRequestHandler):
    fake: FakeKubernetes

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers["Content-Length"])))

    do_PUT = do_POST

    def _serve(self, body: bytes) -> None:
        url = urlsplit(self.path)
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer(*_status(401, "Unauthorized"))
        elif self.fake.forced_status:
            self._answer(*_status(self.fake.forced_status, "as the test wants it"))
        elif not url.path.startswith(PREFIX):
            self._answer(*_status(404, "the server could not find the requested resource"))
        elif self.command != "GET":
            lease = json.loads(body)
            name = url.path[len(PREFIX) + 1 :] or lease["metadata"].get("name", "")
            self._answer(*self.fake.write(self.command, name, lease))
        elif (name := url.path[len(PREFIX) + 1 :]) in self.fake.leases:
            self._answer(200, self.fake.leases[name])
        elif name:
            self._answer(*_status(404, "NotFound"))
        else:
            self._watch({key: values[0] for key, values in parse_qs(url.query).items()})

    def _answer(self, status: int, found: dict[str, Any]) -> None:
        text = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _watch(self, query: dict[str, str]) -> None:
        assert query["watch"] == "1"
        name = query["fieldSelector"].removeprefix("metadata.name=")
        end = time.monotonic() + int(query["timeoutSeconds"])
        self.send_response(200)
        self.end_headers()
        with self.fake.changed:
            since = int(query.get("resourceVersion", 0))
            oldest = self.fake.history[0][0] if self.fake.history else self.fake.version + 1
            if since and since + 1 < oldest and self.fake.version > since:
                self._event("ERROR", _status(410, "too old resource version")[1])
                return
            if not since:
                since = self.fake.version
                if name in self.fake.leases:
                    self._event("ADDED", self.fake.leases[name])
            while not self.fake.is_closed and (left := end - time.monotonic()) > 0:
                for version, kind, lease in self.fake.history:
                    if version > since and lease["metadata"]["name"] == name:
                        self._event(kind, lease)
                since = self.fake.version
                self.fake.changed.wait(left)

    def _event(self, kind: str, found: dict[str, Any]) -> None:
        self.wfile.write(json.dumps({"type": kind, "object": found}).encode() + b"\n")
        self.wfile.flush()

    def log_message(self, format: str, *arguments: object) -> None:
        pass
