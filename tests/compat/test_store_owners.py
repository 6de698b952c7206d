"""One store that wakelog and the real broker own in turn, and stores left by a crash."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.compat.clusters import Cluster, Starter, local_cluster, real_cluster
from tests.compat.driver import JavaDriver
from tests.compat.store_contents import (
    SETTINGS,
    Contents,
    assert_kept,
    create_topics,
    fill,
    read,
)

pytestmark = [pytest.mark.java, pytest.mark.slow]


def test_a_store_changes_owners_four_times(tmp_path: Path) -> None:
    def real_in_order(folder: Path, **options: Any) -> AbstractContextManager[Cluster]:
        return real_cluster(folder, in_order=True, **options)

    owners: dict[str, Starter] = {
        "wakelog-1": local_cluster,
        "real-2": real_in_order,
        "wakelog-3": local_cluster,
        "real-4": real_cluster,  # nobody comes after it
    }
    contents: Contents | None = None
    for count, (owner, start) in enumerate(owners.items()):
        folder = tmp_path / owner
        with (
            start(folder, store=tmp_path / "store", settings=SETTINGS) as cluster,
            JavaDriver(folder / "driver", cluster.name_server) as driver,
        ):
            if contents is None:
                create_topics(driver, cluster)
            else:
                assert_kept(contents, read(driver, cluster, list(owners)[:count]))
            fill(driver, cluster, owner)
            contents = read(driver, cluster, list(owners)[: count + 1])
    assert contents is not None
    assert len(contents.queues["singles", 0]) + len(contents.queues["singles", 1]) == 4 * 120
    assert len(list((tmp_path / "store" / "commitlog").iterdir())) > 8
