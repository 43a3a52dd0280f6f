"""A Hugging Face folder or name as a model and a batch of its tokens."""

from __future__ import annotations

import contextlib
import importlib
import logging as standard_logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.bridge.load import Loaded

#: Read where no text is given: rows of three lengths, so that there is padding.
SENTENCES = (
    "When the ship had left the harbour, the captain who had lost his hat looked for it under every bench.",
    "The key to the old cabinets is in the drawer.",
    "Nobody came.",
)

TOKENIZER_FILES = ("tokenizer*", "vocab*", "merges.txt", "*.model")


def huggingface(name: str, text: Path | None, rows: int | None, length: int | None, download: bool = False) -> Loaded:
    """The model of a Hugging Face folder or name in float32, its tokenizer where it has one, and a batch."""
    from regard.bridge.load import Loaded

    lines = None if text is None else _lines(text)
    _transformers()  # says which extra is wanted
    with _quiet():
        config, model, tokenizer = _parts(name, download)
    ids = _random_ids(config) if tokenizer is None else None
    if ids is None:
        ids = _ids(tokenizer, SENTENCES if lines is None else lines, rows)
    elif lines is not None:
        raise RegardError(
            f"--text: {name} has no tokenizer to read {text} with; put its tokenizer files in the folder, or leave the "
            "text out (the tokens are then any)"
        )
    room = _room(config, tokenizer, length)
    ids = [row[:room] for row in ids]
    pad = _pad(config, tokenizer)
    batch = _padded(ids, pad)
    both = getattr(config, "is_encoder_decoder", False)
    if both:  # the decoder is given the same tokens: what it sees of them is what matters
        batch |= {"decoder_input_ids": batch["input_ids"], "decoder_attention_mask": batch["attention_mask"]}
    strings = () if tokenizer is None else tuple(tuple(_strings(tokenizer, row)) for row in ids)
    return Loaded(model.eval(), batch, name, tokenizer, strings, _causal(config, model), {"pad_id": pad})


def _parts(name: str, download: bool) -> tuple[Any, torch.nn.Module, Any]:
    transformers = _transformers()
    folder = Path(name)
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise RegardError(f"{name}: found no config.json in the folder, wanted a Hugging Face model's folder")
    if not folder.is_dir() and (folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1):
        raise RegardError(
            f"{name}: found no such folder, wanted a Hugging Face folder or name, or package.module:factory"
        )
    try:
        config = transformers.AutoConfig.from_pretrained(name, local_files_only=not download)
        known = [getattr(transformers, each, None) for each in config.architectures or ()]
        kind = next((each for each in known if each is not None), transformers.AutoModel)
        model = kind.from_pretrained(name, dtype=torch.float32, local_files_only=not download)
    except Exception as error:  # a damaged file raises what its reader likes
        if not folder.is_dir() and not download:
            raise RegardError(
                f"{name}: found no such folder, and no such model in the Hugging Face cache on this disk; wanted "
                "either: give a folder, or add --download to fetch it"
            ) from error
        raise RegardError(f"{name}: no model could be loaded: {_first(error)}") from error
    return config, model, _tokenizer(transformers, name, folder, download)


def _tokenizer(transformers: Any, name: str, folder: Path, download: bool) -> Any:
    """The tokenizer, or None: many folders hold weights only, and for want of files one that knows no word is made."""
    if folder.is_dir() and not any(list(folder.glob(each)) for each in TOKENIZER_FILES):
        return None
    try:
        return transformers.AutoTokenizer.from_pretrained(name, local_files_only=not download)
    except (OSError, ValueError, KeyError, ImportError, AttributeError, TypeError):
        return None


def _transformers() -> Any:
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise RegardError('Hugging Face models need their extra: pip install "regard[hf]"') from error
    return transformers


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the loader's bars and notes, which would stand between the lines of what the command prints."""
    logging: Any = importlib.import_module("transformers.utils.logging")
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    hub = standard_logging.getLogger("huggingface_hub")  # tells of every try to reach the network
    before = hub.level
    hub.setLevel(standard_logging.ERROR)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        hub.setLevel(before)
        if bars:
            logging.enable_progress_bar()


def _lines(text: Path) -> list[str]:
    try:
        read = text.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RegardError(
            f"--text: {text} is not UTF-8 at byte {error.start}; convert it first, for example with iconv -t UTF-8"
        ) from error
    except OSError as error:
        raise RegardError(f"--text: cannot read {text}: {error.strerror}; wanted a file of UTF-8 text") from error
    lines = [line for line in read.splitlines() if line.strip()]
    if not lines:
        raise RegardError(f"--text: {text} is empty, wanted some text")
    return lines


def _ids(tokenizer: Any, lines: tuple[str, ...] | list[str], rows: int | None) -> list[list[int]]:
    if rows is None:
        return [list(tokenizer("\n".join(lines), verbose=False)["input_ids"])]
    ids = [list(tokenizer(line, verbose=False)["input_ids"]) for line in lines[:rows]]
    if len(ids) == 1 and rows > 1 and len(ids[0]) > 2:
        ids.append(ids[0][: len(ids[0]) // 3 + 1])
    return [row for row in ids if row] or [[0]]


def _random_ids(config: Any) -> list[list[int]]:
    """Three rows of tokens that mean nothing, without the special ones at the start of most vocabularies."""
    size = int(getattr(config.get_text_config(), "vocab_size", 0) or 0)
    if size < 8:
        raise RegardError(
            f"{type(config).__name__}: found no tokenizer and no vocabulary; write a factory that gives (model, batch)"
        )
    drawn = torch.Generator().manual_seed(0)
    return [torch.randint(size // 8 + 1, size, (n,), generator=drawn).tolist() for n in (23, 17, 11)]


def _room(config: Any, tokenizer: Any, length: int | None) -> int | None:
    """How many tokens the model has positions for, if it or its tokenizer says so, and no more than was asked for."""
    own = getattr(config.get_text_config(), "max_position_embeddings", None)
    known = [n for n in (length, own, getattr(tokenizer, "model_max_length", None)) if isinstance(n, int) and n > 0]
    return min(known) if known else None


def _pad(config: Any, tokenizer: Any) -> int:
    text = config.get_text_config()
    for holder, key in ((tokenizer, "pad_token_id"), (text, "pad_token_id"), (text, "eos_token_id")):
        found = getattr(holder, key, None)
        found = found[0] if isinstance(found, list) and found else found
        if isinstance(found, int) and 0 <= found < (getattr(text, "vocab_size", None) or found + 1):
            return found
    return 0


def _padded(ids: list[list[int]], pad: int) -> dict[str, Tensor]:
    longest = max(map(len, ids))
    tokens = torch.full((len(ids), longest), pad)
    mask = torch.zeros(len(ids), longest, dtype=torch.long)
    for b, row in enumerate(ids):
        tokens[b, : len(row)] = torch.tensor(row)
        mask[b, : len(row)] = 1
    return {"input_ids": tokens, "attention_mask": mask}


def _strings(tokenizer: Any, row: list[int]) -> list[str]:
    """The text of each token as a reader knows it: a space before a word is a space, not the sign a vocabulary has."""
    return [str(tokenizer.decode([each], clean_up_tokenization_spaces=False)) for each in row]


def _causal(config: Any, model: torch.nn.Module) -> bool | None:
    """What the model claims: a class made to go on writing must not see later tokens."""
    if getattr(config, "is_encoder_decoder", False):
        return None
    if type(model).__name__.endswith(("ForCausalLM", "LMHeadModel")):
        return bool(getattr(config, "is_causal", True))
    return False if type(model).__name__.endswith("ForMaskedLM") else None


def _first(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
