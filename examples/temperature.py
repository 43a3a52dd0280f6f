"""The same scores at a falling temperature."""

import torch

import regard


def temperature() -> dict[str, list[float]]:
    """One number goes from an average of everything to a choice of one. Ties stay ties: the limit is not one-hot."""
    temperatures = [100.0, 2.0, 1.0, 0.5, 0.1, 0.01]
    query = torch.tensor([[1.0, 0.0]])
    memory = torch.tensor([[1.0, 0.1], [0.5, 0.5], [0.0, 1.0], [-0.8, 0.2]])
    tied = memory[[0, 0, 1, 2]]
    found: dict[str, list[float]] = {
        "temperature": temperatures,
        "largest weight": [],
        "entropy": [],
        "of two equal": [],
    }
    for each in temperatures:
        softmax = regard.normalize.Softmax(each)
        reading = regard.read(query, memory, memory, score="dot", normalize=softmax, telemetry=["peak", "entropy"])
        assert reading.peak is not None
        assert reading.entropy is not None
        found["largest weight"].append(reading.peak.item())
        found["entropy"].append(reading.entropy.item())
        found["of two equal"].append(regard.weights(query, tied, score="dot", normalize=softmax)[0, 0].item())
    return found
