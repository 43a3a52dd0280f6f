"""A query reads four candidates, in four lines."""

import torch

import regard


def four_line_read() -> dict[str, list[float]]:
    """The first candidate matches best and weighs most, but the read is a blend: nobody is chosen, nobody left out."""
    query = torch.tensor([[1.0, 0.0]])
    memory = torch.tensor([[1.0, 0.1], [0.5, 0.5], [0.0, 1.0], [-0.8, 0.2]])
    scores = regard.scores(query, memory, score="dot")
    weights = regard.weights(query, memory, score="dot")
    output = regard.attend(query, memory, memory, score="dot")
    by_hand = torch.softmax(memory @ query[0], dim=0) @ memory
    assert torch.allclose(output[0], by_hand)
    return {
        "score of each candidate": scores[0].tolist(),
        "weight of each": weights[0].tolist(),
        "what is read": output[0].tolist(),
    }
