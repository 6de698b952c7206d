"""`wakelog cluster reseed` on a store, beside a broker in this process."""

from pathlib import Path

import pytest

from tests.cli.cluster.conftest import CommandLine


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a stopped replica of the broker, with one segment."""
    root = tmp_path / "store"
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / ("0" * 20)).write_bytes(bytes(4096))
    (root / "config").mkdir()
    (root / "wakelog.store").write_text('{"storeId":"s","brokerName":"broker-t"}')
    return root


def test_a_log_is_set_aside_once_it_is_asked_for(cli: CommandLine, store: Path) -> None:
    shown, nothing = cli.json("cluster", "reseed", "--store", str(store))
    assert (shown["broker"], shown["master"]) == ("broker-t", cli.broker.address)
    assert nothing == {"changed": False} and (store / "commitlog").exists()
    lines = cli("cluster", "reseed", "--store", str(store), "--yes")
    assert lines[-1] == "start the replica: it gets the whole log"
    assert any(line.startswith("moved ") and "reseeded." in line for line in lines)
    assert not (store / "commitlog").exists() and (store / "config").exists()
    [kept] = store.glob("wakelog.quarantine/reseeded.*/commitlog/*")
    assert kept.read_bytes() == bytes(4096)


def test_without_a_master_that_answers_nothing_is_touched(cli: CommandLine, store: Path) -> None:
    (store / "wakelog.store").write_text('{"storeId":"s","brokerName":"broker-u"}')
    cli("cluster", "reseed", "--store", str(store), "--yes", code=1)
    assert "no master of broker-u answers" in cli.err and (store / "commitlog").exists()


def test_a_store_of_an_unknown_broker_is_refused(cli: CommandLine, store: Path) -> None:
    (store / "wakelog.store").unlink()
    cli("cluster", "reseed", "--store", str(store), "--yes", code=1)
    assert "does not say which broker it belongs to" in cli.err and (store / "commitlog").exists()
