"""Two processor instructions that kernels need and numba cannot express, written in LLVM IR.

numba compiles Python functions through LLVM, a compiler library. LLVM has its own language of
simple typed steps: load, add, call, branch. An `intrinsic` of numba is a function whose steps are
written in that language by hand. numba puts these steps into the kernel that calls the function.
Everything here reads `builder.step(...)`: add one step, get the name of its result.

    fold_blocks   carry-less multiplication (PCLMULQDQ), the fast way to a CRC; only if CAN_FOLD
    prefetch      asks the memory for an array element that is written soon

How folding works. A CRC is the remainder of a polynomial division. 64 bytes of input may be
replaced by any 64 bytes that leave the same remainder. `fold_blocks` keeps one such block. For each
further block it multiplies the kept one by a constant, which moves it 64 bytes on, and xors the new
bytes into it. A block has four lanes of 16 bytes. In the end each lane is folded into the next one.
The remaining 16 bytes have the remainder of all bytes before, and tables finish the CRC.

Both are needed: without folding a verify takes more than twice as long, and without prefetch a key
takes five times as long to link (benchmarks/README.md). Both have a plain way that tests run too:
`crc_kernel.crc_by_tables`, and no prefetch at all.

Source: none upstream. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
Instruction", 2009.
"""

from typing import Any, Final

import numpy as np
from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

BLOCK_BYTES: Final = 64
LANE_BYTES: Final = 16
POLYNOMIAL: Final = 0x04C11DB7  # of CRC-32

_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
_LANE: Final = ir.VectorType(_I64, 2)
_LANES_COUNT: Final = BLOCK_BYTES // LANE_BYTES
# The instruction for a register of one lane, and for one of a whole block (AVX-512).
_MULTIPLICATIONS: Final = {1: "llvm.x86.pclmulqdq", _LANES_COUNT: "llvm.x86.pclmulqdq.512"}
_CONFIG: Final[Any] = config


def _can_fold() -> bool:
    # A setting makes numba compile for another processor, which may lack the instruction.
    is_other_cpu = _CONFIG.CPU_NAME is not None or _CONFIG.CPU_FEATURES is not None
    if is_other_cpu or _CONFIG.DISABLE_JIT:
        return False
    return bool(binding.get_host_cpu_features().get("pclmul", False))


CAN_FOLD: Final = _can_fold()


def _lanes_at_once() -> int:
    features = binding.get_host_cpu_features()
    is_wide = all(features.get(name, False) for name in ("vpclmulqdq", "avx512f"))
    # Without AVX, numba cannot compile the wide instruction.
    return _LANES_COUNT if is_wide and _CONFIG.ENABLE_AVX else 1


LANES_AT_ONCE: Final = _lanes_at_once()


def _power(exponent: int) -> int:
    """Return x to this power modulo the polynomial, bits reversed: a factor of a fold."""
    value = 1
    for _ in range(exponent):
        value = value << 1 ^ (POLYNOMIAL | 1 << 32 if value >> 31 else 0)
    return int(f"{value:032b}"[::-1], 2) << 1


# A fold has two factors, for the lower and the upper half of a lane.
BLOCK_FACTORS: Final = (_power(8 * BLOCK_BYTES + 32), _power(8 * BLOCK_BYTES - 32))
LANE_FACTORS: Final = (_power(8 * LANE_BYTES + 32), _power(8 * LANE_BYTES - 32))


@intrinsic
def _fold_blocks(typing_context: Any, buffer: Any, begin: Any, blocks_count: Any, crc: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        first = builder.gep(array.data, [arguments[1]])
        widths = {LANES_AT_ONCE: ir.VectorType(_I64, 2 * LANES_AT_ONCE), 1: _LANE}
        multiply = {
            width: cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(kind, [kind, kind, ir.IntType(8)]),
                _MULTIPLICATIONS[width],
            )
            for width, kind in widths.items()
        }

        def load(block: Any, lane: int) -> Any:
            place = builder.add(builder.mul(block, _I64(BLOCK_BYTES)), _I64(LANE_BYTES * lane))
            pointer = builder.bitcast(
                builder.gep(first, [place]), widths[LANES_AT_ONCE].as_pointer()
            )
            return builder.load(pointer, align=1)

        def fold(lanes: Any, factors: tuple[int, int], width: int) -> Any:
            both = ir.Constant(widths[width], list(factors) * width)
            halves = [
                builder.call(multiply[width], (lanes, both, ir.IntType(8)(i))) for i in (0x00, 0x11)
            ]
            return builder.xor(*halves)

        lanes = [
            cgutils.alloca_once_value(builder, load(_I64(0), i))
            for i in range(0, _LANES_COUNT, LANES_AT_ONCE)
        ]
        nothing = ir.Constant(widths[LANES_AT_ONCE], [0] * (2 * LANES_AT_ONCE))
        start = builder.insert_element(nothing, arguments[3], _I32(0))
        builder.store(builder.xor(builder.load(lanes[0]), start), lanes[0])
        with cgutils.for_range(builder, arguments[2], start=_I64(1)) as loop:
            for i, lane in enumerate(lanes):
                moved = fold(builder.load(lane), BLOCK_FACTORS, LANES_AT_ONCE)
                next_lanes = load(loop.index, i * LANES_AT_ONCE)
                builder.store(builder.xor(moved, next_lanes), lane)
        single = [
            builder.shuffle_vector(
                register, register, ir.Constant(ir.VectorType(_I32, 2), [2 * i, 2 * i + 1])
            )
            for register in map(builder.load, lanes)
            for i in range(LANES_AT_ONCE)
        ]
        whole = single[0]
        for lane in single[1:]:
            whole = builder.xor(fold(whole, LANE_FACTORS, 1), lane)
        both = [builder.extract_element(whole, _I32(i)) for i in (0, 1)]
        return context.make_tuple(builder, signature.return_type, both)

    result = types.UniTuple(types.uint64, 2)
    return result(buffer, types.int64, types.int64, types.uint64), generate


@intrinsic
def _prefetch(typing_context: Any, numbers: Any, place: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.gep(array.data, [arguments[1]])
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32]),
            "llvm.prefetch.p0",
        )
        # Arguments: for writing, keep in all caches, data cache.
        builder.call(function, [pointer, _I32(1), _I32(3), _I32(1)])
        return context.get_dummy_value()

    return types.void(numbers, types.uint64), generate


def _prefetch_nothing(numbers: np.ndarray[Any, Any], place: int) -> None:
    """Replace `prefetch` where nothing is compiled."""


fold_blocks: Any = _fold_blocks
"""(buffer, begin, blocks_count, crc) -> 16 bytes, as two longs, with the remainder of the blocks.

blocks_count: at least 1, all inside the buffer. crc: inverted, of the bytes before.
"""

prefetch: Any = _prefetch_nothing if _CONFIG.DISABLE_JIT else _prefetch
"""(numbers, place): start to load numbers[place] into the cache, because it is written soon."""
