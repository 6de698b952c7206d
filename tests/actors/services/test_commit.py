"""Commit's shell: copies what it is told, as often as it is told."""

from pathlib import Path

import pytest

from tests.actors.plans import service_plan
from tests.actors.services.fakes import EPOCH
from tests.actors.stores import known_of, open_plan_store
from wakelog.actors.services.commit import CommitService
from wakelog.actors.services.session import Refused
from wakelog.storage.file_system import RealFileSystem
from wakelog.storage.log.transient_pool import TransientPool


def test_pieces_are_copied_and_copying_again_changes_nothing(tmp_path: Path) -> None:
    pool = TransientPool(RealFileSystem(), str(tmp_path / "pool"), count=1, segment_bytes=10)
    buffer = pool.lend(100)
    assert buffer is not None
    buffer.write(0, b"0123456789")
    segment = tmp_path / "segment"
    segment.write_bytes(bytes(10))
    plan = service_plan(tmp_path)
    service = CommitService(plan.to_builtins())
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        pieces = [(buffer.path, 100, 102, 105, str(segment))]
        assert service.commit(EPOCH, pieces) is None
        assert service.commit(EPOCH, pieces) is None
        assert segment.read_bytes() == b"\0\x00234" + bytes(5)
        assert service.statistics() == {"copied_bytes": 6, "failed_count": 0}
        service.release()
    pool.close()


def test_why_a_copy_failed_is_returned(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    service = CommitService(plan.to_builtins())
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        refusal = service.commit(EPOCH, [(str(tmp_path / "none"), 0, 0, 1, str(tmp_path / "s"))])
        assert refusal is not None and "No such file" in refusal
        with pytest.raises(Refused):
            service.commit(EPOCH - 1, [])
        service.release()
        with pytest.raises(Refused):
            service.commit(EPOCH, [])
