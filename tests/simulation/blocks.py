"""A campaign on all cores: blocks of seeds, each the same whichever process runs it and when.

A block begins with nothing seen, so that what it comes to depends on its seeds alone. Blocks are
merged in the order of their seeds, and the last is the one with which enough distinct images were
seen: of all blocks together, as each may see what another saw. So the number of processes changes
nothing but the time.

A violation ends its seed, not the campaign. Where the seed alone does not show it, because what the
seeds before had checked is not checked twice, the line that replays it begins with their first.
"""

import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from functools import cache, partial
from hashlib import blake2b
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.simulation.campaign import Found, case_of, run_case
from tests.simulation.images import DIGEST_BYTES
from tests.simulation.trial import Tally

BLOCK_SEEDS = 40
"""Half a minute of one core: what an interruption loses, and how often there is news."""
AHEAD_PER_PROCESS = 2
"""Blocks that are under way or wait, so that a slow one at the front lets no core idle."""
FOUND_MAX = 100
"""Then a campaign ends: the code is broken, and more of it teaches nothing."""

_ROOT = Path(__file__).resolve().parents[2]


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """What the seeds of one block came to.

    images: the digests of its images, one after the other, by generation.
    found: each violation as it is printed.
    source: the digest of the code that ran.
    """

    first_seed: int
    last_seed: int
    images: dict[int, bytes]
    attempts_count: int
    checks_count: int
    workloads_count: int
    cpu_seconds: float
    found: list[str]
    source: str


class Progress(NamedTuple):
    """How far a campaign is."""

    images_count: int
    last_seed: int


class Merged:
    """Blocks in order, as one."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self.generations: Counter[int] = Counter()
        self.attempts_count = 0
        self.checks_count = 0
        self.workloads_count = 0
        self.cpu_seconds = 0.0
        self.last_seed = -1
        self.found: list[str] = []

    @property
    def images_count(self) -> int:
        """How many images differ from each other."""
        return len(self._seen)

    def take(self, block: Block) -> None:
        """Take in the next block."""
        for generation, digests in sorted(block.images.items()):
            before = len(self._seen)
            self._seen.update(_parted(digests))
            self.generations[generation] += len(self._seen) - before
        self.attempts_count += block.attempts_count
        self.checks_count += block.checks_count
        self.workloads_count += block.workloads_count
        self.cpu_seconds += block.cpu_seconds
        self.last_seed = block.last_seed
        self.found += block.found


def run_blocks(
    first_seed: int,
    images_count: int,
    *,
    block_seeds: int = BLOCK_SEEDS,
    processes_count: int = 1,
    report: Callable[[Progress], None] = lambda progress: None,
    report_violation: Callable[[str], None] = lambda found: None,
) -> Merged:
    """Run blocks from a seed on until so many distinct images were seen, or too much was found.

    report: is called after each block; report_violation: with each violation, as printed.
    """
    merged = Merged()
    with closing(_blocks(_ranges(first_seed, block_seeds), processes_count)) as blocks:
        for block in blocks:
            merged.take(block)
            for found in block.found:
                report_violation(found)
            report(Progress(merged.images_count, merged.last_seed))
            if merged.images_count >= images_count or len(merged.found) >= FOUND_MAX:
                break
    return merged


def run_block(seeds: range) -> Block:
    """Run the seeds of one block."""
    tally = Tally()
    found: list[str] = []
    began = time.process_time()
    for seed in seeds:
        try:
            run_case(case_of(seed), tally)
        except Found as one:
            is_alone = _is_found_alone(seed)
            found.append(str(one if is_alone else Found(one.case, one.violation, seeds[0])))
        if len(found) >= FOUND_MAX:
            break
    images: dict[int, list[bytes]] = {}
    for digest, generation in tally.seen.items():
        images.setdefault(generation, []).append(digest)
    return Block(
        first_seed=seeds[0],
        last_seed=seeds[-1],
        images={generation: b"".join(digests) for generation, digests in images.items()},
        attempts_count=tally.attempts_count,
        checks_count=tally.checks_count,
        workloads_count=tally.workloads_count,
        cpu_seconds=time.process_time() - began,
        found=found,
        source=source(),
    )


@cache
def source() -> str:
    """Return the digest of the code that is tried and that tries it."""
    found = blake2b(digest_size=16)
    for part in ("wakelog", "tests/simulation"):
        for path in sorted((_ROOT / part).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()


def _ranges(first_seed: int, block_seeds: int) -> Iterator[range]:
    return (range(first, first + block_seeds) for first in count(first_seed, block_seeds))


def _blocks(ranges: Iterator[range], processes_count: int) -> Generator[Block, None, None]:
    """Yield block after block."""
    with _pool(processes_count) as submit:
        under_way: deque[Callable[[], Block]] = deque()
        while True:
            while len(under_way) < processes_count * AHEAD_PER_PROCESS:
                under_way.append(submit(next(ranges)))
            yield under_way.popleft()()


@contextmanager
def _pool(processes_count: int) -> Iterator[Callable[[range], Callable[[], Block]]]:
    """Give a way to run a block elsewhere; one process is this one, so that it can be debugged."""
    if processes_count == 1:
        yield lambda seeds: partial(run_block, seeds)
        return
    executor = ProcessPoolExecutor(
        processes_count, mp_context=get_context("spawn"), initializer=_end_when_interrupted
    )
    try:
        yield lambda seeds: executor.submit(run_block, seeds).result
    finally:
        executor.shutdown(cancel_futures=True)


def _end_when_interrupted() -> None:
    # Without this each process would print the stack of the seed that it was at.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _is_found_alone(seed: int) -> bool:
    try:
        run_case(case_of(seed), Tally())
    except Found:
        return True
    return False


def _parted(digests: bytes) -> Iterator[bytes]:
    for at in range(0, len(digests), DIGEST_BYTES):
        yield digests[at : at + DIGEST_BYTES]
