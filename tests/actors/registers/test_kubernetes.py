"""Leases beyond the contract: names, what others write into a Lease, and refusals."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.actors.registers.fake_kubernetes import NAMESPACE, TOKEN, FakeKubernetes
from wakelog.actors.registers.kubernetes import KubernetesLease
from wakelog.actors.registers.register import (
    KEY_CHARACTERS_MAX,
    NO_VERSION,
    AnswerLost,
    RegisterRefused,
    RegisterUnreachable,
    StaleVersion,
    read_address,
)

pytestmark = pytest.mark.process

KEY = "wakelog/DefaultCluster/broker-a"


@pytest.fixture
def fake() -> Iterator[FakeKubernetes]:
    with FakeKubernetes() as made:
        yield made


@pytest.fixture
def register(fake: FakeKubernetes, tmp_path: Path) -> KubernetesLease:
    (tmp_path / "token").write_text(TOKEN)
    return open_lease(fake, tmp_path / "token")


def open_lease(fake: FakeKubernetes, token: Path, namespace: str = NAMESPACE) -> KubernetesLease:
    options = f"server=http://127.0.0.1:{fake.port}&token={token}"
    return KubernetesLease(read_address(f"kubernetes://{namespace}/orders?{options}"))


def test_names_are_labels_and_differ(register: KubernetesLease) -> None:
    name = register.lease_name(KEY)
    assert name.startswith("orders-wakelog-defaultcluster-broker-a-")
    keys = [KEY, KEY.lower(), KEY.replace("/", "-"), "x" * KEY_CHARACTERS_MAX]
    names = {register.lease_name(key) for key in keys}
    assert len(names) == len(keys) and max(map(len, names)) <= 63


def test_what_others_write_into_the_lease_stays(
    fake: FakeKubernetes, register: KubernetesLease
) -> None:
    version = register.replace(KEY, b"1", NO_VERSION)
    lease = fake.leases[register.lease_name(KEY)]
    lease["metadata"]["labels"] = {"team": "orders"}
    lease["metadata"]["annotations"]["note"] = "ours"
    assert register.read(KEY) == (b"1", version)
    register.replace(KEY, b"2", version)
    found = fake.leases[register.lease_name(KEY)]["metadata"]
    assert found["labels"] == {"team": "orders"} and found["annotations"]["note"] == "ours"


def test_a_lease_that_was_removed(fake: FakeKubernetes, register: KubernetesLease) -> None:
    version = register.replace(KEY, b"1", NO_VERSION)
    fake.leases.clear()
    with pytest.raises(StaleVersion):
        register.replace(KEY, b"2", version)
    assert register.replace(KEY, b"2", NO_VERSION) != version


def test_a_lease_that_another_program_made_is_refused(
    fake: FakeKubernetes, register: KubernetesLease
) -> None:
    version = register.replace(KEY, b"1", NO_VERSION)
    fake.leases[register.lease_name(KEY)]["metadata"]["annotations"] = {}
    with pytest.raises(RegisterRefused, match="was not made by wakelog"):
        register.read(KEY)
    assert version


def test_a_watch_goes_on_after_the_history_was_dropped(
    fake: FakeKubernetes, register: KubernetesLease
) -> None:
    version = register.replace(KEY, b"1", NO_VERSION)
    fake.forget_history()
    assert register.watch(KEY, version, 0.3) == (b"1", version)


@pytest.mark.parametrize(
    ("status", "on_read", "on_replace"),
    [
        (403, RegisterRefused, RegisterRefused),
        (429, RegisterUnreachable, RegisterUnreachable),
        (500, RegisterUnreachable, AnswerLost),
        (504, RegisterUnreachable, AnswerLost),
    ],
)
def test_errors_of_the_server(
    fake: FakeKubernetes,
    register: KubernetesLease,
    status: int,
    on_read: type[Exception],
    on_replace: type[Exception],
) -> None:
    fake.forced_status = status
    with pytest.raises(on_read, match="as the test wants it"):
        register.read(KEY)
    with pytest.raises(on_replace, match="as the test wants it"):
        register.replace(KEY, b"1", NO_VERSION)


def test_a_wrong_token_a_missing_one_and_another_namespace(
    fake: FakeKubernetes, register: KubernetesLease, tmp_path: Path
) -> None:
    (tmp_path / "other").write_text("other")
    with pytest.raises(RegisterRefused, match="Unauthorized"):
        open_lease(fake, tmp_path / "other").read(KEY)
    with pytest.raises(RegisterRefused, match="token of the service account"):
        open_lease(fake, tmp_path / "absent").read(KEY)
    with pytest.raises(RegisterRefused, match="could not find"):
        open_lease(fake, tmp_path / "token", "elsewhere").replace(KEY, b"1", NO_VERSION)


def test_a_token_that_was_exchanged_is_read_again(
    register: KubernetesLease, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("expired")
    with pytest.raises(RegisterRefused, match="Unauthorized"):
        register.read(KEY)
    (tmp_path / "token").write_text(TOKEN)
    assert register.read(KEY).version == NO_VERSION
