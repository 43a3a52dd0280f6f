"""The matrix product inside a kernel: the BLAS that torch itself carries, or a plain one of ours.

A tile's product takes tens of microseconds, so calling out of the kernel for each would cost as much again. Where
torch's library shows its BLAS (``sgemm_``), kernels call that by its address; where it does not, ``product`` runs loops
of ours: slower, and equal to rounding.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from regard.kernels.compile import kernel
from regard.kernels.vector import at, like, wide_vectors


@functools.cache
def address(dtype: torch.dtype) -> int:
    """Where the product of this precision lies in memory; 0 when torch does not show one."""
    name = "dgemm_" if dtype == torch.float64 else "sgemm_"
    for library in libraries():
        if hasattr(library, name):
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    return 0


@functools.cache
def thread_setter() -> Callable[[int], int] | None:
    """Sets how many threads a product started from this thread may use, and returns what it was; None if unknown."""
    for library in libraries():
        for name in ("MKL_Set_Num_Threads_Local", "openblas_set_num_threads_local"):
            if hasattr(library, name):
                return getattr(library, name)  # type: ignore[no-any-return]
    return None


def libraries() -> Iterator[ctypes.CDLL]:
    folder = Path(torch.__file__).parent
    for pattern in ("lib/libtorch_cpu.*", "lib/*openblas*", "lib/torch_cpu.dll", "../torch.libs/*openblas*"):
        for path in sorted(folder.glob(pattern)):
            if path.suffix in (".so", ".dylib", ".dll") or ".so." in path.name:
                try:
                    yield ctypes.CDLL(str(path))
                except OSError:
                    continue


@intrinsic
def _call(typing, function, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    """xGEMM by its Fortran calling convention: everything by reference, matrices by columns."""

    def code(context, builder, signature, args):
        byte = ir.IntType(8).as_pointer()

        def slot(value):
            place = cgutils.alloca_once(builder, value.type)
            builder.store(value, place)
            return builder.bitcast(place, byte)

        function, *rest = args
        pointers = {6, 8, 11}  # a, b, c are addresses already
        passed = [builder.inttoptr(x, byte) if at in pointers else slot(x) for at, x in enumerate(rest)]
        kind = ir.FunctionType(ir.VoidType(), [byte] * len(passed))
        builder.call(builder.inttoptr(function, kind.as_pointer()), passed)
        return context.get_dummy_value()

    i, w = types.int32, types.int64
    return types.void(w, i, i, i, i, i, alpha, w, i, w, i, alpha, w, i), code


@intrinsic
def _put(typing, address, index, value):
    def code(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], args[2].type.as_pointer())
        builder.store(args[2], builder.gep(pointer, [args[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, value), code


#: As it is, or transposed. (A plain 0 or 1 would be compiled for each of its values.)
N, T = np.int64(ord("N")), np.int64(ord("T"))


@kernel
def product(blas, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    """C ← alpha · op(A) op(B) + beta · C by rows: C (m, n), op(A) (m, k), op(B) (k, n); addresses and row lengths."""
    if m == 0 or n == 0:
        return
    if blas != 0:
        # A matrix by rows is its transpose by columns, so the two change places.
        _call(blas, tb, ta, n, m, k, alpha, b, max(ldb, 1), a, max(lda, 1), beta, c, max(ldc, 1))
    else:
        _plain(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)


@kernel
def _plain(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    wide_vectors()
    zero = like(alpha, 0)
    for i in range(m):
        for j in range(n):
            _put(c, i * ldc + j, beta * at(alpha, c, i * ldc + j) if beta != zero else zero)
        if tb == T:
            for j in range(n):
                total = zero
                for x in range(k):
                    total += at(alpha, a, x * lda + i if ta == T else i * lda + x) * at(alpha, b, j * ldb + x)
                _put(c, i * ldc + j, at(alpha, c, i * ldc + j) + alpha * total)
        else:
            for x in range(k):
                factor = alpha * at(alpha, a, x * lda + i if ta == T else i * lda + x)
                for j in range(n):
                    _put(c, i * ldc + j, at(alpha, c, i * ldc + j) + factor * at(alpha, b, x * ldb + j))
