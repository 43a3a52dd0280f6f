"""Findings from inside: what the recorded calls say is wrong, one family a file."""

from regard.doctor.watch.faults.axes import axis_findings, head_order, merged, wrong_axis
from regard.doctor.watch.faults.health import health
from regard.doctor.watch.faults.ledger import Ledger
from regard.doctor.watch.faults.masks import mask_findings
from regard.doctor.watch.faults.padding import padding_findings
from regard.doctor.watch.faults.path import path_findings, slow_path
from regard.doctor.watch.faults.scale import scale_findings
from regard.doctor.watch.faults.seen import Seen

__all__ = [
    "RULES", "Ledger", "Seen", "axis_findings", "head_order", "health", "mask_findings", "merged", "padding_findings",
    "path_findings", "scale_findings", "slow_path", "wrong_axis",
]  # fmt: skip

#: Asked of every call.
RULES = (mask_findings, padding_findings, axis_findings, head_order, scale_findings, path_findings)
