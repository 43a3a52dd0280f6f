"""Arrays by name in one file, in the safetensors format: any of its readers opens them, and here they are mapped into
memory and not read until they are needed. What is written goes from the arrays to the disk without a copy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import RegardError
from regard.files import replace

__all__ = ["read", "write"]

Array = np.ndarray[Any, Any]

_NAMES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "I16": "<i2", "U8": "|u1", "BOOL": "|b1"}
_CODES = {np.dtype(code): name for name, code in _NAMES.items()}


def write(path: Path, arrays: Mapping[str, Array], about: Mapping[str, str], argument: str) -> None:
    """Puts the arrays, and the texts of ``about``, at ``path``: whole, or what stood there is untouched.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "some.safetensors")
    ...     write(path, {"x": np.arange(3)}, {"kind": "numbers"}, "--save")
    ...     arrays, about = read(path, "--load")
    ...     print(arrays["x"].tolist(), about)
    [0, 1, 2] {'kind': 'numbers'}
    """
    header: dict[str, Any] = {"__metadata__": dict(about)}
    parts, end = [], 0
    for name, array in arrays.items():
        whole = np.ascontiguousarray(array)
        header[name] = {
            "dtype": _CODES[whole.dtype],
            "shape": list(whole.shape),
            "data_offsets": [end, end + whole.nbytes],
        }
        end += whole.nbytes
        parts.append(whole.reshape(-1).view(np.uint8).data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # arrays begin at a multiple of 8
    replace(path, (len(text).to_bytes(8, "little"), text, *parts), argument)


def read(path: Path, argument: str) -> tuple[dict[str, Array], dict[str, str]]:
    """(arrays, texts) of a file that ``write`` made."""
    try:
        whole = np.memmap(path, np.uint8, "r")
        size = int.from_bytes(whole[:8].tobytes(), "little")
        header = json.loads(whole[8 : 8 + size].tobytes())
        about = header.pop("__metadata__", {})
        arrays = {}
        for name, each in header.items():
            first, last = each["data_offsets"]
            part = whole[8 + size + first : 8 + size + last]
            arrays[name] = np.asarray(part.view(_NAMES[each["dtype"]]).reshape(each["shape"]))
        return arrays, about
    except OSError as error:
        raise RegardError(
            f"{argument}: cannot read {path}: {error.strerror}; name a folder that --save made"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RegardError(
            f"{argument}: {path} is no model or is damaged ({error}); train it again with --save"
        ) from error
