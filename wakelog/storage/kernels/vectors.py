"""Many bytes at once, in the processor's vector registers, for kernels that look at text.

    hash_last    sixteen bytes as part of a Java hash
    bytes_in     which of 64 bytes are in a range, a bit each
    lowest_bit   the number of the lowest bit that is set

They are written in LLVM's terms for any processor: what it has no instruction for is made of
those it has. Imported with numba by the kernels alone; where nothing is compiled, plain Python
stands in.

Source: none upstream.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

HASHED_BYTES: Final = 16
CHUNK_BYTES: Final = 64

_I8: Final = ir.IntType(8)
_I16: Final = ir.IntType(16)
_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
_HASHED: Final = ir.VectorType(_I8, HASHED_BYTES)
_PRODUCTS: Final = ir.VectorType(_I32, HASHED_BYTES)
_CHUNK: Final = ir.VectorType(_I8, CHUNK_BYTES)
_INT32: Final = 1 << 32
# Of each of sixteen bytes, the last of which is taken as it is.
_WEIGHTS: Final = tuple(pow(31, HASHED_BYTES - 1 - i, _INT32) for i in range(HASHED_BYTES))
_CONFIG: Final[Any] = config

Array = np.ndarray[Any, Any]


def _load(context: Any, builder: Any, signature: Any, arguments: Any, kind: Any, back: int) -> Any:
    """Load a vector that begins so many bytes in front of a place in a buffer."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    place = builder.sub(arguments[1], _I64(back))
    pointer = builder.bitcast(builder.gep(array.data, [place]), kind.as_pointer())
    return builder.load(pointer, align=1)


def _splat(builder: Any, value: Any, kind: Any) -> Any:
    """Return a vector that has the low bits of a long in each place."""
    one = builder.trunc(value, kind.element)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), one, _I32(0))
    places = ir.Constant(ir.VectorType(_I32, kind.count), [0] * kind.count)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), places)


@intrinsic
def _hash_last(typing_context: Any, buffer: Any, end: Any, skip: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = _load(context, builder, signature, arguments, _HASHED, HASHED_BYTES)
        numbers = ir.Constant(_HASHED, list(range(HASHED_BYTES)))
        skipped = builder.icmp_unsigned("<", numbers, _splat(builder, arguments[2], _HASHED))
        zeros = ir.Constant(_HASHED, [0] * HASHED_BYTES)
        taken = builder.select(skipped, zeros, loaded)
        signs = builder.bitcast(builder.icmp_signed("<", taken, zeros), _I16)
        products = builder.mul(
            builder.zext(taken, _PRODUCTS), ir.Constant(_PRODUCTS, list(_WEIGHTS))
        )
        add = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(_I32, [_PRODUCTS]),
            f"llvm.vector.reduce.add.v{HASHED_BYTES}i32",
        )
        both = [builder.zext(builder.call(add, [products]), _I64), builder.zext(signs, _I64)]
        return context.make_tuple(builder, signature.return_type, both)

    return types.UniTuple(types.int64, 2)(buffer, types.int64, types.int64), generate


@intrinsic
def _bytes_in(typing_context: Any, buffer: Any, at: Any, first: Any, last: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = _load(context, builder, signature, arguments, _CHUNK, 0)
        above = builder.sub(loaded, _splat(builder, arguments[2], _CHUNK))
        width = builder.sub(arguments[3], arguments[2])
        inside = builder.icmp_unsigned("<=", above, _splat(builder, width, _CHUNK))
        return builder.bitcast(inside, _I64)

    return types.uint64(buffer, types.int64, types.int64, types.int64), generate


@intrinsic
def _lowest_bit(typing_context: Any, bits: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), generate


def hash_last_plain(buffer: Array, end: int, skip: int) -> tuple[int, int]:
    """Stand in for `hash_last` where nothing is compiled."""
    value = signs = 0
    for i in range(skip, HASHED_BYTES):
        byte = int(buffer[end - HASHED_BYTES + i])
        value += byte * _WEIGHTS[i]
        signs |= (byte >> 7) << i
    return value % _INT32, signs


def bytes_in_plain(buffer: Array, at: int, first: int, last: int) -> np.uint64:
    """Stand in for `bytes_in`."""
    chunk = buffer[at : at + CHUNK_BYTES]
    inside = (chunk >= first) & (chunk <= last)
    return np.uint64(np.packbits(inside, bitorder="little").view(np.uint64)[0])


def lowest_bit_plain(bits: int) -> int:
    """Stand in for `lowest_bit`."""
    return (int(bits) & -int(bits)).bit_length() - 1


hash_last: Any = hash_last_plain if _CONFIG.DISABLE_JIT else _hash_last
"""(buffer, end, skip) -> the Java hash of the sixteen bytes in front of `end`, the first `skip` of
them taken for zeros, as an int without sign; and a bit for each that is not ASCII.

All sixteen have to lie in the buffer; skip: 0 to 16.
"""

bytes_in: Any = bytes_in_plain if _CONFIG.DISABLE_JIT else _bytes_in
"""(buffer, at, first, last) -> a long without sign: bit i tells whether buffer[at + i] is in
[first, last]. All 64 bytes have to lie in the buffer."""

lowest_bit: Any = lowest_bit_plain if _CONFIG.DISABLE_JIT else _lowest_bit
"""(bits) -> the number of the lowest bit that is set; one has to be."""
