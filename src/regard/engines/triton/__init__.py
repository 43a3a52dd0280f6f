"""The triton engine: softmax and entmax over dot products and tanh-sums, with telemetry, by kernels of our own."""

from regard.engines.triton.engine import Triton

__all__ = ["Triton"]
