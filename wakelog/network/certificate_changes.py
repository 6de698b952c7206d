"""CertificateChanges: decides when certificates are read again.

    changed                          read again
    signers of clients               at once
    certificate, but not its key     no: the two would not fit
    certificate and key              at once
    anything after a failed attempt  at once

Invariant: a change counts until certificates were read again with success.

Source: org.apache.rocketmq.srvutil.FileWatchService, the listeners of BrokerController and
NamesrvController (4.9.3), which forget a change once they have tried.
"""

from collections.abc import Mapping

from wakelog.network.tls import ServerTls


class CertificateChanges:
    """The files of one server, compared with what was read."""

    def __init__(self, tls: ServerTls, digests: Mapping[str, bytes]) -> None:
        """Compare with these digests of contents, by path."""
        self._tls = tls
        self._digests = dict(digests)
        self._changed: set[str] = set()
        self._has_failed = False

    def note(self, digests: Mapping[str, bytes]) -> bool:
        """Note what the files hold now, and return whether to read them again.

        A file that is left out could not be read; it counts as it was.
        """
        changed = {path for path, digest in digests.items() if self._digests.get(path) != digest}
        self._digests.update(digests)
        self._changed |= changed
        if not changed:
            return False
        tls = self._tls
        pair = {tls.cert_path, tls.key_path}
        return self._has_failed or tls.trust_path in changed or pair <= self._changed

    def on_read(self, *, succeeded: bool) -> None:
        """Note the end of an attempt to read them again."""
        self._has_failed = not succeeded
        if succeeded:
            self._changed.clear()
