"""Every row of the table in the module's docstring."""

from wakelog.network.certificate_changes import CertificateChanges
from wakelog.network.tls import ServerTls, TlsMode

TLS = ServerTls(TlsMode.PERMISSIVE, "cert", "key", trust_path="trust")
FIRST = {"cert": b"1", "key": b"1", "trust": b"1"}


def changes() -> CertificateChanges:
    return CertificateChanges(TLS, FIRST)


def test_what_did_not_change_is_not_read_again() -> None:
    watch = changes()
    assert not watch.note(FIRST)
    assert not watch.note({})


def test_new_signers_are_read_at_once() -> None:
    watch = changes()
    assert watch.note({**FIRST, "trust": b"2"})
    watch.on_read(succeeded=True)
    assert not watch.note({**FIRST, "trust": b"2"})


def test_a_certificate_waits_for_its_key() -> None:
    watch = changes()
    assert not watch.note({**FIRST, "cert": b"2"})
    assert not watch.note({**FIRST, "cert": b"2"})
    assert watch.note({**FIRST, "cert": b"2", "key": b"2"})
    watch.on_read(succeeded=True)
    assert not watch.note({"trust": b"1", "cert": b"2", "key": b"3"})


def test_a_file_that_cannot_be_read_for_a_while_has_not_changed() -> None:
    watch = changes()
    assert not watch.note({"key": b"2"})
    assert not watch.note({"key": b"2", "trust": b"1"})
    assert watch.note({"cert": b"2"})


def test_any_change_after_a_failure_is_tried() -> None:
    watch = changes()
    assert watch.note({**FIRST, "cert": b"2", "key": b"bad"})
    watch.on_read(succeeded=False)
    assert not watch.note({**FIRST, "cert": b"2", "key": b"bad"})
    assert watch.note({**FIRST, "cert": b"2", "key": b"2"})
    watch.on_read(succeeded=True)
    assert not watch.note({**FIRST, "cert": b"2", "key": b"3"})
