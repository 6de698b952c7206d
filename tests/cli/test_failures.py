"""A row for each kind of error, and the line that the user reads."""

import os
import re
import sys

import pytest

from wakelog.actors.errors import CommandFailed, DeploymentFailed, NotPossible, PreflightRefused
from wakelog.actors.registers.register import RegisterRefused, RegisterUnreachable
from wakelog.broker.replication.takeover import TakeoverRefused
from wakelog.cli.failures import WORDS, Failure, explain, with_options
from wakelog.cli.program import FAILED, MISUSED, command_line
from wakelog.client.errors import ARGUMENT_REMEDIES, ClientError, remedy_of, tls_refused
from wakelog.network.errors import PortUnavailable, SendFailed, TlsFailed, TlsRefused
from wakelog.spark.errors import JobFailed, StoreUnreadable
from wakelog.spark.session import SparkMissing
from wakelog.storage.errors import (
    DamagedStore,
    IllegalConfiguration,
    NotWriteable,
    StoreLocked,
    WrongStore,
    store_failure,
)

ERRORS = [
    (NotPossible("--brokers 0 is not possible", "Give 1 to 26."), MISUSED, "Give 1 to 26."),
    (PreflightRefused("port 1 is taken", "Stop it."), FAILED, "port 1 is taken. Stop it."),
    (DeploymentFailed("Ray has died", "Look."), FAILED, "Ray has died. Look."),
    (CommandFailed("2 problems found", "Look."), FAILED, "2 problems found. Look."),
    (RegisterRefused("no address", "Give one."), MISUSED, "no address. Give one."),
    (TakeoverRefused("no replica 4", "Name another."), MISUSED, "no replica 4. Name another."),
    (RegisterUnreachable("no member answers", "Look."), FAILED, "no member answers. Look."),
    (
        StoreLocked("/s/lock", None),
        FAILED,
        "the store /s is already running in another process. Stop it first, or give another",
    ),
    (
        StoreLocked("/s/lock", os.getpid()),
        FAILED,
        f"the store /s is already running in process {os.getpid()} (",
    ),
    (
        WrongStore("/s", "it is store 1, not 2; mount that one"),
        FAILED,
        "/s is not this broker's store: it is store 1, not 2. Mount that one.",
    ),
    (WrongStore("/s", "it is another"), FAILED, "it is another. Give the --store of this broker."),
    (
        DamagedStore("/s/commitlog/1", "a gap before it", "put the missing file back"),
        FAILED,
        "/s/commitlog/1: a gap before it. Put the missing file back.",
    ),
    (
        store_failure("/s/x", "allocate", OSError(28, "No space left on device")),
        FAILED,
        "allocate of /s/x failed: No space left on device. Free some space, or give a --store",
    ),
    (
        store_failure("/s/x", "read", OSError(5, "Input/output error")),
        FAILED,
        "read of /s/x failed: Input/output error. Look at the disk",
    ),
    (JobFailed("/t is not empty", "give a new folder"), FAILED, "empty. Give a new folder."),
    (
        SparkMissing("PySpark is not installed: install wakelog with its extra spark"),
        FAILED,
        "PySpark is not installed. Install wakelog with its extra spark.",
    ),
    (StoreUnreadable("/t is no directory"), FAILED, "/t is no directory. Look at --store."),
    (NotWriteable("a sync failed"), FAILED, "the store takes no messages: a sync failed. Look"),
    (
        IllegalConfiguration("deleteWhen", "25", "hours from 00 to 23"),
        MISUSED,
        "deleteWhen=25 is not accepted. Give hours from 00 to 23.",
    ),
    (
        PortUnavailable("127.0.0.1", 10911, OSError(98, "Address already in use")),
        FAILED,
        "cannot listen on 127.0.0.1:10911: another process uses this port. Stop it, or choose",
    ),
    (
        PermissionError(13, "Permission denied", "/s/wakelog.logs"),
        FAILED,
        "/s/wakelog.logs: Permission denied. Look at what it names",
    ),
    (tls_refused(TlsRefused("/x")), MISUSED, "/x. Name a readable PEM file with --tls-trust"),
    (
        ClientError(
            "no",
            remedy_of(
                TlsFailed("a:1", "Hostname mismatch, certificate is not valid for 'localhost'.")
            ),
        ),
        FAILED,
        "no. Call it by an address that its certificate is for, or give --tls-insecure.",
    ),
    (
        ClientError("no", remedy_of(TlsFailed("a:1", "no TLS"))),
        FAILED,
        "serves TLS, and give its signer by --tls-trust, or trust any by --tls-insecure.",
    ),
    (
        ClientError("no", remedy_of(SendFailed("a:1", "lost"))),
        FAILED,
        "if it requires TLS, give --tls, or --tls-config where it wants a certificate.",
    ),
    (JobFailed("no 'x', is it 'y'?", "look"), FAILED, "no 'x', is it 'y'? Look."),
]


@pytest.mark.parametrize(("error", "exit_code", "part"), ERRORS)
def test_an_error_is_one_line_with_cause_and_remedy(
    error: Exception, exit_code: int, part: str
) -> None:
    failure = explain(error)
    assert failure.line.startswith("wakelog: ")
    assert part in failure.line
    assert "\n" not in failure.line and failure.line.endswith(".")
    assert failure.exit_code == exit_code
    assert not failure.is_ours


def test_an_error_of_ours_says_where_it_was_raised() -> None:
    try:
        raise ZeroDivisionError("one\nof ours")
    except ZeroDivisionError as error:
        failure = explain(error)
    assert failure.is_ours
    assert failure.exit_code == FAILED
    assert "ZeroDivisionError: one of ours at " in failure.line
    assert f"{__file__}:" in failure.line


def test_blanks_of_a_value_are_shown_as_given() -> None:
    """A value with two blanks is refused for them, so that both must be seen."""
    assert Failure("a=1s  5s\n is not accepted", "Give one blank.").line == (
        "wakelog: a=1s  5s is not accepted. Give one blank."
    )


@pytest.mark.parametrize("remedy", ARGUMENT_REMEDIES)
def test_a_remedy_of_the_client_names_options_of_a_command(remedy: str) -> None:
    assert not re.search(r"\w=|Tls\(", with_options(f"Check it, or {remedy}"))
    assert WORDS.keys() <= set(ARGUMENT_REMEDIES)


@pytest.mark.parametrize(
    ("called", "found", "expected"),
    [
        ("/venv/bin/wakelog", "/venv/bin/wakelog", "wakelog"),
        ("/venv/bin/wakelog", None, f"{sys.executable} -m wakelog"),
        ("/src/wakelog/__main__.py", "/venv/bin/wakelog", f"{sys.executable} -m wakelog"),
    ],
)
def test_the_command_line_names_the_program_as_it_was_called(
    called: str, found: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [called])
    monkeypatch.setattr("shutil.which", lambda name: found)
    assert command_line() == expected
