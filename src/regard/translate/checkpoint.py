"""What a model directory holds, and how it is written so that nothing is ever lost.

::

    config.json         sizes of the model
    model.safetensors   the weights that did best on the dev text
    source.model        vocabularies (SentencePiece)
    target.model
    run.json            the arguments of the training and a fingerprint of its text
    state.pt            what a killed run needs to go on: weights, optimiser, random state, position, history
    history.json        what was measured at the end of each epoch, for who reads it

The first four are enough to translate. config.json, run.json and state.pt say their format; models of before there were
any still translate, runs of another format are refused by name. Every file is written beside its place, flushed to the
disk and renamed over the old one, so that at any moment each name is either the old file or the new one, whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.files import replace
from regard.translate.models import ARCHITECTURES, architecture, name_of
from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.models.sizes import Sizes
from regard.translate.text.vocabulary import Vocabulary

FORMAT = 1  # of config.json, run.json and state.pt: raised when what they hold changes its meaning

__all__ = [
    "FORMAT",
    "check_format",
    "digest",
    "export",
    "load_config",
    "load_model",
    "load_state",
    "load_vocabularies",
    "read_json",
    "save_model",
    "save_state",
    "write_json",
]


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes ``value`` as :func:`regard.files.replace` does."""
    replace(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        RegardError: no such file, or it holds something else.
    """
    text = _read(path)
    try:
        value = json.loads(text)
    except ValueError as error:
        raise RegardError(f"model: {path} is not JSON ({error}); take the file from a whole model directory") from error
    if not isinstance(value, dict):
        raise RegardError(f"model: {path} holds no JSON object; take the file from a whole model directory")
    return value


def save_model(directory: Path, weights: Mapping[str, Tensor], dtype: torch.dtype = torch.float32) -> None:
    """Writes ``model.safetensors``."""
    from safetensors.torch import save

    replace(
        directory / "model.safetensors",
        save({name: tensor.detach().to(dtype).contiguous() for name, tensor in weights.items()}),
    )


def save_vocabularies(directory: Path, source: Vocabulary, target: Vocabulary) -> None:
    """Writes ``source.model`` and ``target.model``."""
    replace(directory / "source.model", source.model)
    replace(directory / "target.model", target.model)


def save_config(directory: Path, config: Sizes) -> None:
    """Writes ``config.json``."""
    write_json(directory / "config.json", {"format": FORMAT, "model": name_of(config), **asdict(config)})


def check_format(path: Path, found: Mapping[str, Any], given: str = "out") -> None:
    """Raises where a file's format is another than this version's; ``given`` is what named the file."""
    if found.get("format") != FORMAT:
        raise RegardError(
            f"{given}: {path} is of format {found.get('format', 0)!r}, this version of regard has {FORMAT}; "
            "go on with the version that began it, or give another place"
        )


def load_config(directory: Path) -> Sizes:
    """The sizes of a directory's model.

    Raises:
        RegardError: no such directory, or its ``config.json`` is missing, cut, of another version or of no known model.
    """
    if not directory.is_dir():
        raise RegardError(f"model: {directory} is no directory; give one that regard train --out wrote")
    path = directory / "config.json"
    found = read_json(path)
    if "format" in found:  # models from before there were formats are read as they are
        check_format(path, found, "model")
        del found["format"]
    name = found.pop("model", "bahdanau")  # files from before there was another do not say
    if name not in ARCHITECTURES:
        raise RegardError(f"model: {path} has a {name!r}; known: {', '.join(ARCHITECTURES)}")
    made = architecture(name)
    known = {"source_vocabulary", "target_vocabulary", "dropout", *made.sizes}
    if not {"source_vocabulary", "target_vocabulary"} <= set(found) or not set(found) <= known:
        raise RegardError(f"model: {path} has {', '.join(sorted(found))}; wanted {', '.join(sorted(known))}")
    return made.config(**found)


def load_vocabularies(directory: Path, config: Sizes) -> tuple[Vocabulary, Vocabulary]:
    """Those of source and target.

    Raises:
        RegardError: one is missing or cut, or they are not those of ``config``.
    """
    found = []
    for name, size in (("source.model", config.source_vocabulary), ("target.model", config.target_vocabulary)):
        try:
            vocabulary = Vocabulary(_read(directory / name))
        except RuntimeError as error:
            raise RegardError(
                f"model: {directory / name} is cut or no vocabulary; take the file from a whole model directory"
            ) from error
        if len(vocabulary) != size:
            raise RegardError(
                f"model: {directory / name} has {len(vocabulary)} pieces, config.json wants {size}; "
                "take all files from one training"
            )
        found.append(vocabulary)
    source, target = found
    if getattr(config, "shared", False) and source.model != target.model:
        raise RegardError(
            f"model: {directory / 'target.model'} is not source.model, config.json wants one embedding for both; "
            "take all files from one training"
        )
    return source, target


def load_model(directory: Path) -> tuple[EncoderDecoder[Any, Any], Vocabulary, Vocabulary]:
    """The model of a directory in float32, ready to translate, and its two vocabularies.

    Raises:
        RegardError: no such directory, a file is missing or cut, or the files do not belong together.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    config = load_config(directory)
    source, target = load_vocabularies(directory, config)
    raw = _read(directory / "model.safetensors")
    try:
        weights = load(raw)
    except SafetensorError as error:
        raise RegardError(
            f"model: {directory / 'model.safetensors'} is damaged ({error}); copy it again or train again"
        ) from error
    model = architecture(name_of(config)).model(config)
    wanted = model.state_dict()
    wrong = [n for n in wanted if n not in weights or weights[n].shape != wanted[n].shape]
    if wrong or set(weights) != set(wanted):
        name = (wrong or sorted(set(weights) - set(wanted)))[0]
        shape = tuple(weights[name].shape) if name in weights else "nothing"
        want = tuple(wanted[name].shape) if name in wanted else "nothing"
        raise RegardError(
            f"model: {directory / 'model.safetensors'} has {shape} for {name}, config.json wants {want}; "
            "take all files from one training"
        )
    model.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    return model.eval(), source, target


def digest(directory: Path) -> str:
    """The SHA-256 of a model's weights, by which a run knows what it began with."""
    return sha256(_read(directory / "model.safetensors")).hexdigest()


def export(directory: Path, out: Path) -> None:
    """Copies what translating needs to ``out``, the weights in float16: half the bytes, the same translations."""
    model, source, target = load_model(directory)
    out.mkdir(parents=True, exist_ok=True)
    save_config(out, model.config)
    save_vocabularies(out, source, target)
    save_model(out, model.state_dict(), torch.float16)


def save_state(directory: Path, state: Mapping[str, Any]) -> None:
    """Writes ``state.pt``: tensors, numbers and strings in dictionaries and lists, nothing that is code."""
    out = BytesIO()
    torch.save({"format": FORMAT, **state}, out)
    replace(directory / "state.pt", out.getvalue())


def load_state(directory: Path) -> dict[str, Any] | None:
    """What :func:`save_state` wrote, or None where a run stopped before its first save."""
    path = directory / "state.pt"
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(BytesIO(_read(path)), weights_only=True)
    except RegardError:
        raise
    except Exception as error:  # whatever torch says of a file that is cut or is something else
        raise RegardError(
            f"out: {path} cannot be read ({type(error).__name__}): it is cut or no state of a run; "
            f"give another --out, or remove {path.parent} to begin again"
        ) from error
    check_format(path, state if isinstance(state, dict) else {})
    return state


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise RegardError(
            f"model: {path.parent} lacks {path.name}; "
            "copy it from where the model was trained, or give a whole directory"
        ) from error
    except OSError as error:
        raise RegardError(f"model: cannot read {path}: {error.strerror}") from error
