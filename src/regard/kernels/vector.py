"""What a loop over a row is made of: exp, tanh, max and dice that LLVM turns into full-width vector code.

The loops are written plainly, one number at a time; each function here is there because the plain spelling does not
vectorise (Python's max, math.exp), or computes in the wrong precision (a literal is float64).
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from regard.kernels.compile import inline


@intrinsic
def wide_vectors(typing):
    """Asks LLVM for 512-bit vectors in this function, which it else avoids: a fifth faster where they exist."""

    def code(context, builder, signature, args):
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), code


@intrinsic
def like(typing, x, value):
    """``value`` in the precision of ``x``."""

    def code(context, builder, signature, args):
        return context.cast(builder, args[1], value, x)

    return x(x, value), code


@intrinsic
def larger(typing, a, b):
    """max(a, b) in a form that a loop can be vectorised over; a NaN may be passed over."""

    def code(context, builder, signature, args):
        above = builder.fcmp_ordered(">", args[0], args[1], flags=("nnan", "nsz"))
        return builder.select(above, args[0], args[1], flags=("nnan", "nsz"))

    return a(a, a), code


@intrinsic
def _from_bits(typing, x):
    single = x == types.int32

    def code(context, builder, signature, args):
        return builder.bitcast(args[0], ir.FloatType() if single else ir.DoubleType())

    return (types.float32 if single else types.float64)(x), code


@intrinsic
def at(typing, ref, address, index):
    """The number ``index`` places behind ``address``, of the type of ``ref``."""

    def code(context, builder, signature, args):
        pointer = builder.inttoptr(args[1], context.get_value_type(ref).as_pointer())
        return builder.load(builder.gep(pointer, [args[2]]))

    return ref(ref, types.int64, types.int64), code


@inline
def address(x):
    """Where an array begins (NumPy's own number is unsigned, and unsigned plus signed is a float)."""
    return np.int64(x.ctypes.data)


@intrinsic
def at_least(typing, x, low):
    """max(x, low), and NaN where x is NaN."""

    def code(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", args[1], args[0]), args[1], args[0])

    return x(x, x), code


@intrinsic
def _whole(typing, y):
    """The whole number next to y."""

    def code(context, builder, signature, args):
        kind = args[0].type
        name = "llvm.rint.f32" if kind == ir.FloatType() else "llvm.rint.f64"
        rint = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), name)
        return builder.call(rint, [args[0]])

    return y(y), code


@intrinsic
def _times_two_to(typing, p, n):
    """p · 2^n for a whole n: it is added to p's exponent."""

    def code(context, builder, signature, args):
        word = ir.IntType(32)
        n = builder.shl(builder.fptosi(args[1], word), ir.Constant(word, 23))
        return builder.bitcast(builder.add(builder.bitcast(args[0], word), n), ir.FloatType())

    return types.float32(types.float32, types.float32), code


def exp(x):
    """e^x for x ≤ 88 (709 in double precision): 2^n · 2^f, f by a polynomial; 0 far below."""


@overload(exp, inline="always")
def _exp(x):
    return _exp32 if x == types.float32 else _exp64


def _exp32(x):
    y = at_least(x * np.float32(1.4426950408889634), np.float32(-127.0))
    n = _whole(y)
    f = y - n
    # 2^f − 1 on [−½, ½] with no x⁰ term, so that e⁰ is 1: relative error 9e-8.
    p = np.float32(0.00132647)
    p = p * f + np.float32(0.00967151)
    p = p * f + np.float32(0.05550734)
    p = p * f + np.float32(0.24022242)
    p = p * f + np.float32(0.69314698)
    p = p * f + np.float32(1.0)
    return _times_two_to(p, n)


def _exp64(x):
    y = min(max(x * 1.4426950408889634, -1023.0), 1023.0)
    n = np.floor(y + 0.5)
    g = (y - n) * 0.6931471805599453
    p = 1.0 / 6227020800.0  # 1/13!, then the terms of the series before it
    p = p * g + 1.0 / 479001600.0
    p = p * g + 1.0 / 39916800.0
    p = p * g + 1.0 / 3628800.0
    p = p * g + 1.0 / 362880.0
    p = p * g + 1.0 / 40320.0
    p = p * g + 1.0 / 5040.0
    p = p * g + 1.0 / 720.0
    p = p * g + 1.0 / 120.0
    p = p * g + 1.0 / 24.0
    p = p * g + 1.0 / 6.0
    p = p * g + 0.5
    p = p * g + 1.0
    p = p * g + 1.0
    return p * _from_bits((np.int64(n) + np.int64(1023)) << np.int64(52))


@intrinsic
def _bits(typing, x):
    def code(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), code


@intrinsic
def _number(typing, x):
    def code(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), code


@inline
def log(x):
    """ln x of a normal number: with m in [√½, √2) and z = (m−1)/(m+1), it is n ln 2 + 2 (z + z³/3 + z⁵/5 + …)."""
    shifted = _bits(x) - np.int64(0x3FE6A09E667F3BCD)  # the bits of √½
    n = shifted >> np.int64(52)
    m = _number(_bits(x) - (n << np.int64(52)))
    z = (m - 1.0) / (m + 1.0)
    y = z * z
    p = 1.0 / 19.0
    p = p * y + 1.0 / 17.0
    p = p * y + 1.0 / 15.0
    p = p * y + 1.0 / 13.0
    p = p * y + 1.0 / 11.0
    p = p * y + 1.0 / 9.0
    p = p * y + 1.0 / 7.0
    p = p * y + 1.0 / 5.0
    p = p * y + 1.0 / 3.0
    return np.float64(n) * 0.6931471805599453 + 2.0 * (z + z * y * p)


@inline
def tanh(x):
    """(1 − e) / (1 + e) with e = e^{−2|x|}, and the sign of x; to an absolute error of one rounding."""
    e = exp(-like(x, 2) * abs(x))
    y = (like(x, 1) - e) / (like(x, 1) + e)
    return y if x >= like(x, 0) else -y


@inline
def dice(seed, row, column):
    """32 random bits for one pair, the same whenever they are asked for: a counter, hashed by shifts and products.

    Forward and backward draw the same numbers without keeping them, whatever the tiles and threads.
    """
    # Each step is cut to 32 bits by name: Numba takes the product of two of them to be 64 wide.
    x = np.uint32(seed ^ np.uint32(row * np.uint32(0x9E3779B1)) ^ np.uint32(column * np.uint32(0x85EBCA77)))
    x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D))
    x = np.uint32((x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B))
    x = np.uint32((x ^ (x >> np.uint32(16))) + row)
    x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D))
    return np.uint32(x ^ (x >> np.uint32(15)))
