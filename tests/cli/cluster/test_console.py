"""The console's command: accounts, where it may listen, and the commands that its pages run."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from wakelog.actors.errors import NotPossible
from wakelog.cli.cluster import console as shown
from wakelog.cli.cluster.console import account_line, checked_accounts, commands_at
from wakelog.cli.output import Output, Text
from wakelog.cli.root import ask_of
from wakelog.client.admin import Admin, open_admin
from wakelog.client.errors import ClientError
from wakelog.console.accounts import ConsoleRole, read_accounts
from wakelog.console.actions.action import CommandFailed, Words
from wakelog.console.serve import Listen
from wakelog.protocol.bodies import BrokerData, ClusterInfo


class Group(NamedTuple):
    """What a replica knows of its group."""

    register: str


ACCOUNTS = "accounts: [{accessKey: ops, secretKey: secret-key, admin: true}]"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    texts = {"accounts": ACCOUNTS, "cert": "-", "key": "-", "empty": "accounts: []"}
    texts |= {
        "no-yaml": "{",
        "list": "- 1",
        "nameless": "accounts: [{accessKey: '', secretKey: x}]",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in texts}


def test_loopback_needs_no_accounts(files: dict[str, str]) -> None:
    assert not checked_accounts(Listen(), None).are_asked_for
    assert not checked_accounts(Listen("::1"), None).are_asked_for
    assert checked_accounts(Listen(), files["accounts"]).are_asked_for


def test_other_hosts_need_accounts_and_a_certificate(files: dict[str, str]) -> None:
    plain = Listen("0.0.0.0")
    safe = Listen("0.0.0.0", cert_path=files["cert"], key_path=files["key"])
    for listen, accounts in ((plain, None), (plain, files["accounts"]), (safe, None)):
        with pytest.raises(NotPossible, match="other hosts reach the console"):
            checked_accounts(listen, accounts)
    assert checked_accounts(safe, files["accounts"]).are_asked_for
    proxied = Listen("0.0.0.0", proxies=("10.0.0.2",))
    assert checked_accounts(proxied, files["accounts"]).are_asked_for
    with pytest.raises(NotPossible, match="other hosts reach the console"):
        checked_accounts(proxied, None)


def test_accounts_are_followed_in_their_file(files: dict[str, str]) -> None:
    assert checked_accounts(Listen(), files["accounts"]).path == files["accounts"]


@pytest.mark.parametrize("typed", ["password", "s\u00e9cret of '\"ops"])
def test_a_line_for_the_file_has_a_hash(typed: str, tmp_path: Path) -> None:
    line = account_line("o: 'ps", is_admin=True, ask=lambda prompt: typed)
    assert typed not in line
    accounts = read_accounts(f"accounts:\n{line}\n")
    found = accounts.log_in("o: 'ps", typed)
    assert found is not None and found.role is ConsoleRole.OPERATOR
    guest = read_accounts("accounts:\n" + account_line("g", is_admin=False, ask=lambda _: typed))
    found = guest.log_in("g", typed)
    assert found is not None and found.role is ConsoleRole.READER


def test_a_password_may_come_by_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("password\nmore"))
    accounts = read_accounts(f"accounts: [{account_line('ops', is_admin=False)[2:]}]")
    assert accounts.log_in("ops", "password") is not None


@pytest.mark.parametrize(
    ("typed", "cause"),
    [
        (["password", "passw0rd"], "the two passwords differ"),
        (["short", "short"], "the password has 5 characters"),
    ],
)
def test_a_password_that_cannot_be_is_refused(typed: list[str], cause: str) -> None:
    with pytest.raises(NotPossible, match=cause):
        account_line("ops", is_admin=True, ask=lambda _: typed.pop(0))


@pytest.mark.parametrize(
    ("listen", "accounts", "cause"),
    [
        (Listen("here"), None, "--bind here is no IP address"),
        (Listen(cert_path="x"), None, "belong together"),
        (Listen(cert_path="no/cert", key_path="no/key"), None, "there is no file no/cert"),
        (Listen(), "no/such/file", "cannot be read"),
        (Listen(proxies=("here",)), "accounts", "is no address and no network"),
        (Listen(proxies=("127.0.0.1",)), None, "lets other hosts reach the console"),
        (Listen(), "no-yaml", "is not accepted"),
        (Listen(), "list", "is not accepted"),
        (Listen(), "empty", "it has no account"),
        (Listen(), "nameless", "an empty accessKey or secretKey"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(
    listen: Listen, accounts: str | None, cause: str, files: dict[str, str]
) -> None:
    with pytest.raises(NotPossible, match=cause):
        checked_accounts(listen, files.get(accounts or "", accounts))


def run(words: Words) -> list[Output]:
    """Run words as the console does."""

    async def main() -> list[Output]:
        async with open_admin("127.0.0.1:1") as admin:
            commands = commands_at(admin)
            return [each async for each in commands(words)]

    return asyncio.run(main())


def test_words_run_as_a_command_and_failures_keep_what_was_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def says_its_words(words: Words) -> Callable[[Admin], AsyncIterator[Output]]:
        async def outputs(_: Admin) -> AsyncIterator[Output]:
            yield Text(" ".join(words), {})
            if "fail" in words:
                raise ClientError("it failed", "Try again")

        return outputs

    monkeypatch.setattr(shown, "ask_of", says_its_words)
    assert run(["ask", "this"]) == [Text("ask this", {})]
    with pytest.raises(CommandFailed) as failed:
        run(["ask", "fail"])
    assert (failed.value.cause, failed.value.remedy) == ("it failed", "Try again.")
    assert failed.value.said == [Text("ask fail", {})]


def test_commands_of_mqadmin_run_as_well() -> None:
    with pytest.raises(CommandFailed, match="there is no command nonsense"):
        run(["admin", "nonsense"])
    with pytest.raises(CommandFailed, match="missing option"):
        run(["admin", "deleteTopic"])
    with pytest.raises(CommandFailed, match="asks no cluster"):
        run(["admin", "deleteTopic", "-c", "c", "-h"])


@pytest.mark.parametrize(
    "register",
    [
        "file:///etc", "etcd://10.0.0.9:2379", "", "etcd://etcd:2379@10.0.0.9:2379",
        "etcd://a:1", "etcd://user:secret@a:1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_joined", [True, False])
def test_a_register_is_one_that_a_replica_names(
    register: str, is_joined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    info = ClusterInfo({"a": BrokerData("c", "a", {0: "away:1", 1: "a1:1"})})

    async def cluster(_: Admin) -> ClusterInfo:
        return info

    async def runtime_info(_: Admin, address: str) -> dict[str, str]:
        if address == "away:1":
            raise ClientError("away:1 is away", "Start it")
        return {"register": "etcd://a:1"}

    async def outputs(_: Admin) -> AsyncIterator[Output]:
        opened.append(register)
        yield Text("", {})

    async def main() -> None:
        async with open_admin("127.0.0.1:1") as admin:
            commands = commands_at(admin)
            given = [f"--register={register}"] if is_joined else ["--register", register]
            assert [x async for x in commands(["cluster", "failover", "a", *given])]

    monkeypatch.setattr(shown, "ask_of", lambda _: outputs)
    monkeypatch.setattr(Admin, "cluster", cluster)
    monkeypatch.setattr(Admin, "runtime_info", runtime_info)
    monkeypatch.setattr(shown, "known_group", lambda values: Group(values["register"]))
    if register.endswith("a:1"):
        asyncio.run(main())
        assert opened == [register]
    else:
        with pytest.raises(CommandFailed, match="no replica of this broker says"):
            asyncio.run(main())
        assert not opened


def test_commands_ask_known_hosts_alone() -> None:
    with pytest.raises(CommandFailed, match="no name server knows a broker there"):
        run(["admin", "getBrokerConfig", "-b", "127.0.0.1:2"])


def test_what_asks_no_cluster_is_no_action() -> None:
    with pytest.raises(NotPossible, match="asks no cluster"):
        ask_of(["check", "--config", "/nowhere/broker.conf", "--help"])
    assert callable(ask_of(["send", "--", "T", "--help"]))


def test_a_group_named_like_an_option_prints_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(NotPossible, match="asks no cluster"):
        ask_of(["dlq", "show", "--help", "--lines", "100"])
    assert capsys.readouterr() == ("", "")
