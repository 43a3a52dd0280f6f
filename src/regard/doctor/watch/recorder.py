"""The recorder: what a model's heads look at, measured while it runs, over as many batches as run."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from regard.doctor.finding import Finding, Untested
from regard.doctor.watch.call import Call
from regard.doctor.watch.declared import Declared
from regard.doctor.watch.eager import WrongAxis
from regard.doctor.watch.faults import RULES, Ledger, Seen, health, merged, slow_path, wrong_axis
from regard.doctor.watch.faults.path import compiled
from regard.doctor.watch.heads import Heads
from regard.doctor.watch.measure import measured
from regard.doctor.watch.mode import Mode
from regard.doctor.watch.place import Modules, Place, source
from regard.doctor.watch.stream import Stream
from regard.doctor.watch.trail import Read
from regard.errors import RegardError, RegardWarning
from regard.reading import Reading

__all__ = ["Watch", "watch"]

Key = tuple[str, str, int]


class Watch:
    """What :func:`regard.watch` gives: records inside ``with``, and keeps what it saw after it.

    It may be entered again, and adds to what it has until ``reset()``.
    """

    def __init__(self, model: Any, groups: Mapping[str, Tensor] | None = None) -> None:
        self.model = model
        self._declared = Declared(model, _checked(groups or {}))
        self._modules = Modules(model) if isinstance(model, nn.Module) else None
        self._streams: dict[Key, Stream] = {}
        self._untested: dict[tuple[str, str, str], Untested] = {}
        self._ledger = Ledger()
        self._projected: set[tuple[str, str]] = set()
        self._open: contextlib.ExitStack | None = None

    # -- recording ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> Watch:
        if self._open is not None:
            raise RegardError("watch: this recorder is already recording; make another with regard.watch(model)")
        with contextlib.ExitStack() as stack:
            if "torch._dynamo" in sys.modules:  # what was compiled runs as it was written, or nothing of it is seen
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            for part in (self._modules, self._declared):
                if part is not None:
                    part.attach()
                    stack.callback(part.detach)
            mode = stack.enter_context(Mode(self))
            stack.callback(mode.trail.clear)
            self._open = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._open is not None
        stack, self._open = self._open, None
        stack.close()

    def place(self) -> Place:
        return Place("", None, source()) if self._modules is None else self._modules.here()

    def heads_hint(self) -> int | None:
        """The number of heads where a module says so and its tensors are (B·H, L, D)."""
        module = None if self._modules is None else self._modules.running()
        return module.num_heads if isinstance(module, nn.MultiheadAttention) else None

    def groups(self, call: Call) -> dict[str, Tensor]:
        return self._declared.keys(call)

    @contextlib.contextmanager
    def aside(self, what: str) -> Iterator[None]:
        """Out of sight of every mode, of autograd and of autocast. A mistake in here is told, and the model runs on."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch._C.DisableTorchFunction())
            stack.enter_context(torch.no_grad())
            for device in ("cpu", "cuda"):
                if torch.is_autocast_enabled(device):
                    stack.enter_context(torch.autocast(device, enabled=False))
            try:
                yield
            except Exception as error:
                place = self.place()
                why = f"{place.path or 'the model'}, {place.source}, {what}: {type(error).__name__}: {error}"
                self._untested.setdefault((place.path, place.source, what), Untested("watch", why))

    def wrong_axis(self, wrong: WrongAxis) -> None:
        self._ledger.add([wrong_axis(wrong)])

    def projects(self, tag: Read, given: Tensor, weight: Tensor | None) -> None:
        """The heads' outputs meet a projection; its weights are looked at once."""
        place = tag.call.place
        first = (place.path, place.source) not in self._projected
        self._projected.add((place.path, place.source))
        self._ledger.add(merged(tag, given, weight if first else None))

    def slow_path(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._ledger.add(slow_path(self.place(), args, kwargs))

    def record(self, make: Callable[[], Call], reading: Reading | None = None) -> None:
        """Measures one call. What can't be measured is kept as untested: the model runs on all the same."""
        with self.aside("attention"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RegardWarning)  # of NaN a finding tells
            self._add(make(), reading)

    def _add(self, call: Call, reading: Reading | None) -> None:
        groups, counts = self._declared.keys(call), self._declared.queries(call)
        m = measured(call, groups, counts, reading)
        H = call.shape[1]
        key = (call.place.path, call.place.source, H)
        if key not in self._streams:
            self._streams[key] = Stream(call.place.path, H, call.place.source, call.kind)
        largest = call.v.detach().abs().amax((0, 2, 3)) if call.v.numel() else call.v.new_zeros(call.v.shape[1])
        self._streams[key].update(m, counts, largest.repeat_interleave(H // largest.numel()))
        training = self.model.training if isinstance(self.model, nn.Module) else True
        seen = Seen(call, m, groups.get("padding"), counts, training, self._declared.crosses(call))
        for rule in RULES:
            self._ledger.add(rule(seen))

    # -- what was seen -----------------------------------------------------------------------------------------------

    def compute(self) -> Heads:
        """Every head that was seen, over all batches so far."""
        return Heads.of(list(self._streams.values()))

    def findings(self) -> list[Finding]:
        """What is wrong, or worth a note, by what was seen so far; worst first."""
        return self._ledger.findings([*health(self.compute()), *compiled(self.model)])

    @property
    def untested(self) -> list[Untested]:
        """Calls that were seen and could not be measured, and why."""
        return list(self._untested.values())

    def reset(self) -> None:
        """Forgets what was seen."""
        self._streams.clear()
        self._ledger = Ledger()
        self._projected.clear()
        self._untested.clear()

    def merge(self, other: Watch) -> Watch:
        """Adds what another recorder of the same model saw (another rank, another batch): as if one had seen both."""
        for key, stream in other._streams.items():
            if key in self._streams:
                self._streams[key].merge(stream)
            else:
                self._streams[key] = Stream(stream.module, stream.heads, stream.source, stream.kind)
                self._streams[key].merge(stream)
        self._untested = {**other._untested, **self._untested}
        self._ledger.merge(other._ledger)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """What was seen, without the model: ranks send it to each other."""
        return {"streams": self._streams, "untested": self._untested, "ledger": self._ledger}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(None)  # type: ignore[misc]
        self._streams, self._untested, self._ledger = state["streams"], state["untested"], state["ledger"]


def watch(model: Any, groups: Mapping[str, Tensor] | None = None) -> Watch:
    """Records what every head looks at while the model runs: H = −Σ w log w, Σ_{j ∈ group} w, Σ w |i − j|, … by head.

    Args:
        model: a module, whose paths name the heads; anything else (a function, None) is watched all the same, without
            paths. Any PyTorch code: ``scaled_dot_product_attention`` by any name, ``nn.MultiheadAttention``,
            ``flex_attention``, a softmax between two products, and regard's own ``attend`` and ``read``.
        groups: sets of keys by name, booleans (S,) or (B, S), whose share of the weight is wanted beside that of the
            first key, a query's own place and the one before it. Padding and special tokens are read from the model's
            arguments and config; groups of these names come before them. A group counts where S is the number of keys.

    The statistics come from :func:`regard.read` on the queries, keys and mask that were seen, in O(L) memory; the
    model's output stays what it is, bit for bit, but for ``nn.MultiheadAttention``'s fast path in eval and compiled
    code, which PyTorch leaves when anything watches (finding PTH002). A query that sees nothing counts as ``empty`` and
    in no mean. What cannot be measured is in ``untested``, and the model runs on.

    Raises:
        RegardError: groups that are no booleans over keys; a recorder that is entered while it records.

    >>> import torch, regard
    >>> layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.randn(3, 5, 8)
    >>> with regard.watch(layer) as seen:
    ...     _ = layer(x, x, x)
    >>> [(head.head, head.rows, 0 < head.entropy <= 1) for head in seen.compute()]
    [(0, 15, True), (1, 15, True)]
    """
    return Watch(model, groups)


def _checked(groups: Mapping[str, Tensor]) -> dict[str, Tensor]:
    for name, group in groups.items():
        if not isinstance(group, Tensor) or group.dtype != torch.bool or group.dim() not in (1, 2):
            found = f"{tuple(group.shape)} of {group.dtype}" if isinstance(group, Tensor) else type(group).__name__
            raise RegardError(f"groups[{name!r}]: found {found}, wanted booleans over the keys, (S,) or (B, S)")
    return dict(groups)
