"""Where the log lies for the source."""

import pytest

from tests.fakes.logs import small_config
from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.tables import source_path


def test_a_store_is_named_by_its_root_and_a_log_alone_by_its_folder() -> None:
    assert source_path(small_config()) == "/store"
    assert source_path(small_config(store_path_commit_log="/copied")) == "/copied"
    with pytest.raises(JobFailed, match="spread over 2 folders; copy its files into one"):
        source_path(small_config(store_path_commit_log="/a,/b"))
