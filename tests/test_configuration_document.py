"""Each key of 4.9.3 has one row in docs/configuration.md, obeyed or with a reason."""

import pytest

from scripts.configuration_document import SECTIONS, Row, configuration_rows
from wakelog.storage.config import WAKELOG_KEYS

ROWS = {title.partition(":")[0]: list(configuration_rows(SECTIONS[title])) for title in SECTIONS}


def row(section: str, key: str) -> Row:
    (found,) = [one for one in ROWS[section] if one.key == key]
    return found


@pytest.mark.parametrize("section", ROWS)
def test_a_key_has_one_row(section: str) -> None:
    keys = [one.key for one in ROWS[section]]
    assert len(keys) == len(set(keys))


def test_what_the_rows_say() -> None:
    assert row("Broker", "traceOn") == ("traceOn", "`true`", "true or false", "at once")
    assert row("Broker", "brokerPermission")[2:] == ("0 to 15", "at once")
    assert row("Store", "flushDiskType")[2:] == ("ASYNC_FLUSH or SYNC_FLUSH", "at start")
    assert row("Store", "storePathRootDir").default == "-"
    assert row("Store", "enableDLegerCommitLog").here.startswith("refused: ")
    assert row("Name server", "kvConfigPath")[1:3] == ("-", "text")
    assert row("Name server", "kvConfigPath").here.startswith("at start only: no request says ")
    assert row("Name server", "serverWorkerThreads").here.startswith("no effect: ")
    rows = ROWS["Store"] + ROWS["Broker"]
    assert {one.key for one in rows if one.here.startswith("wakelog's")} == WAKELOG_KEYS
