"""Vectors of sixteen numbers, for what LLVM does not find by itself: many rows at once, sums that stay in registers.

Addresses are whole numbers; ``ref`` is of the type that is kept, ``one`` of the type that is computed in.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
_WORD = ir.IntType(64)
_FAST = ("contract", "nsz")


def _word(n: int) -> ir.Constant:
    return ir.Constant(_WORD, n)


def _size(kind: Any) -> int:
    return kind.width // 8 if isinstance(kind, ir.IntType) else 4 if isinstance(kind, ir.FloatType) else 8


def _vector(builder: Any, kept: Any, wide: Any, address: Any) -> Any:
    """Sixteen numbers from an address that need not be aligned to more than one of them."""
    found = builder.load(builder.inttoptr(address, ir.VectorType(kept, LANES).as_pointer()), align=_size(kept))
    if isinstance(kept, ir.IntType):
        return builder.sitofp(found, ir.VectorType(wide, LANES))
    return found


def _added(builder: Any, total: Any, a: Any, b: Any) -> None:
    """``total`` (where a vector is kept) ← total + a · b."""
    product = builder.fmul(a, b, flags=_FAST)
    builder.store(builder.fadd(builder.load(total), product, flags=_FAST), total)


def _totals(builder: Any, rows: list[Any]) -> Any:
    """Sixteen vectors' sums as one vector: neighbours are folded into halves, quarters, … of one another."""
    half = LANES // 2
    while len(rows) > 1:
        left = [n for n in range(2 * LANES) if n % (2 * half) < half]
        right = [n + half for n in left]
        low, high = (ir.Constant(ir.VectorType(ir.IntType(32), LANES), mask) for mask in (left, right))
        rows = [
            builder.fadd(builder.shuffle_vector(x, y, low), builder.shuffle_vector(x, y, high), flags=_FAST)
            for x, y in zip(rows[::2], rows[1::2], strict=True)
        ]
        half //= 2
    return rows[0]


@intrinsic
def dots_of_sixteen(typing, ref, one, s, q, k, step, chunks):
    """s_c ← Σ_e q_e k_ce for sixteen rows c of ``step`` bytes from address k, over e < 16 · chunks."""

    def code(context, builder, signature, args):
        kept, wide = (context.get_value_type(x) for x in (ref, one))
        *_, s, q, k, step, chunks = args
        zero = ir.Constant(ir.VectorType(wide, LANES), [0.0] * LANES)
        rows = []
        for first in range(0, LANES, 4):  # four at a time read what lies side by side in its order
            starts = [builder.add(k, builder.mul(step, _word(first + c))) for c in range(4)]
            sums = [cgutils.alloca_once(builder, zero.type) for _ in starts]
            for total in sums:
                builder.store(zero, total)
            with cgutils.for_range(builder, chunks) as loop:
                at = builder.mul(loop.index, _word(LANES))
                asked = _vector(builder, wide, wide, builder.add(q, builder.mul(at, _word(_size(wide)))))
                for start, total in zip(starts, sums, strict=True):
                    row = _vector(builder, kept, wide, builder.add(start, builder.mul(at, _word(_size(kept)))))
                    _added(builder, total, asked, row)
            rows += [builder.load(total) for total in sums]
        where = builder.inttoptr(s, zero.type.as_pointer())
        builder.store(_totals(builder, rows), where, align=_size(wide))
        return context.get_dummy_value()

    w = types.int64
    return types.void(ref, one, w, w, w, w, w), code


def _gathering(vectors: int) -> Any:
    @intrinsic
    def gather(typing, ref, one, out, s, v, step, n):
        """out_e ← out_e + Σ_c s_c v_ce over n rows c of ``step`` bytes from address v, for 16 · ``vectors`` columns."""

        def code(context, builder, signature, args):
            kept, wide = (context.get_value_type(x) for x in (ref, one))
            *_, out, s, v, step, n = args
            many = ir.VectorType(wide, LANES)
            where = [
                builder.inttoptr(builder.add(out, _word(i * LANES * _size(wide))), many.as_pointer())
                for i in range(vectors)
            ]
            sums = [cgutils.alloca_once(builder, many) for _ in where]
            for place, total in zip(where, sums, strict=True):
                builder.store(builder.load(place, align=_size(wide)), total)
            with cgutils.for_range(builder, n) as loop:
                row = builder.add(v, builder.mul(step, loop.index))
                weight = builder.load(builder.gep(builder.inttoptr(s, wide.as_pointer()), [loop.index]))
                first = builder.insert_element(ir.Constant(many, ir.Undefined), weight, ir.Constant(ir.IntType(32), 0))
                same = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
                spread = builder.shuffle_vector(first, first, same)
                for i, total in enumerate(sums):
                    here = builder.add(row, _word(i * LANES * _size(kept)))
                    _added(builder, total, spread, _vector(builder, kept, wide, here))
            for place, total in zip(where, sums, strict=True):
                builder.store(builder.load(total), place, align=_size(wide))
            return context.get_dummy_value()

        w = types.int64
        return types.void(ref, one, w, w, w, w, w), code

    return gather


gather_64, gather_16 = _gathering(4), _gathering(1)


@intrinsic
def size_of(typing, x):
    """How many bytes a number of its type takes."""

    def code(context, builder, signature, args):
        return _word(_size(context.get_value_type(x)))

    return types.int64(x), code


@intrinsic
def put(typing, address, index, value):
    """The number ``index`` places behind ``address`` ← value."""

    def code(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], args[2].type.as_pointer())
        builder.store(args[2], builder.gep(pointer, [args[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, value), code


@intrinsic
def taken(typing, address, index):
    """The whole number ``index`` places behind ``address``, then one more: no two threads are given the same."""

    def code(context, builder, signature, args):
        pointer = builder.gep(builder.inttoptr(args[0], _WORD.as_pointer()), [args[1]])
        return builder.atomic_rmw("add", pointer, _word(1), "acq_rel")

    return types.int64(types.int64, types.int64), code
