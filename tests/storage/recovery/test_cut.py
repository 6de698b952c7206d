"""A log that is cut keeps what lay behind, and opens as if that had never been there."""

from pathlib import Path

from tests.actors.plans import service_plan
from tests.actors.stores import fill, open_plan_store
from wakelog.storage.file_system import FileSystem
from wakelog.storage.recovery.cut import cut_log


def test_a_cut_log_opens_at_its_new_end(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    with open_plan_store(plan) as store:
        end = fill(store, 20)
        fill(store, 1_000, begin=20)  # into further segments
        assert store.log.files.last is not None and store.log.files.last.start_offset > end
        whole = store.log.end_offset
    pieces = cut_log(FileSystem(), plan.settings.store, end, 1234)
    assert pieces[0].physical_offset == end
    assert sum(piece.size_bytes for piece in pieces) <= whole - end
    with open_plan_store(plan) as store:
        assert store.log.end_offset == store.recovery.log_end == end
        assert not store.recovery.clean_exit and not store.recovery.quarantined
        again = fill(store, 1, begin=20)
        assert again > end


def test_a_log_that_is_cut_to_nothing_begins_again(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    with open_plan_store(plan) as store:
        fill(store, 5)
    assert cut_log(FileSystem(), plan.settings.store, 0, 1234)[0].physical_offset == 0
    assert not list((tmp_path / "store" / "commitlog").iterdir())
    with open_plan_store(plan) as store:
        assert store.log.end_offset == 0
