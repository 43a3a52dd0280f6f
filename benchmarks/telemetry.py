"""What it costs to know entropy, a bound on the peak and the sink's mass at a length where weights cannot be stored."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from benchmarks.timing import interleaved

if TYPE_CHECKING:
    from rich.console import Console

TITLE = "telemetry on sdpa, causal, L = 8,192, H = 4, D = 64: time against the plain fused call, and memory"

L, H, D = 8_192, 4, 64
GOAL_RATIO, GOAL_MIB = 3.0, 100.0

_SETUP = f"""
import torch, regard
torch.manual_seed(0)
q, k, v = (torch.randn(1, {H}, {L}, {D}) for _ in range(3))
first = torch.arange({L}) < 1

def read(q, k, v, first):
    return regard.read(
        q, k, v, mask=regard.mask.causal(), telemetry=("entropy", "bound"), groups={{"sink": first}}, engine="sdpa"
    )
"""
_MEMORY = f"""{_SETUP}
def status(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) / 1024

read(*(x[:, :, :256].contiguous() for x in (q, k, v)), first[:256])
open("/proc/self/clear_refs", "w").write("5")  # the high-water mark falls to what is resident now
before = status("VmRSS")
read(q, k, v, first)
print(status("VmHWM") - before)
"""


def run(console: Console) -> dict[str, object]:
    import torch

    here: dict[str, object] = {}
    exec(_SETUP, here)
    q, k, v, first, read = (here[name] for name in ("q", "k", "v", "first", "read"))
    fused = torch.nn.functional.scaled_dot_product_attention
    compared = interleaved(
        lambda: read(q, k, v, first),  # type: ignore[operator]
        lambda: fused(q, k, v, is_causal=True),  # type: ignore[arg-type]
        rounds=7,
        names=("output + lse + entropy + peak bound + sink mass", "the plain fused call"),
    )
    console.print(compared)
    # In a process of its own, whose high-water mark nothing else raises. It is read where Linux keeps it.
    done = subprocess.run([sys.executable, "-c", _MEMORY], capture_output=True, text=True, check=True)
    extra = float(done.stdout)
    weights = H * L * L * 4 / 2**20
    console.print(f"extra memory {extra:.0f} MiB (the weights alone would take {weights:,.0f} MiB)")
    for name, found, goal in (("time ratio", compared.ratio, GOAL_RATIO), ("extra MiB", extra, GOAL_MIB)):
        console.print(f"{name}: {found:.2f}, goal ≤ {goal:g}: {'met' if found <= goal else 'NOT met'}")
    return compared.to_dict() | {"extra_mib": extra, "goal_ratio": GOAL_RATIO, "goal_mib": GOAL_MIB}
