"""A softmax over the queries instead of the keys."""

import torch

import regard


def wrong_axis() -> dict[str, list[float]]:
    """No error and no odd shape, only wrong numbers: each row should sum to 1, and a memory of ones should read as 1.

    That is the test to keep: whatever the weights are, a memory in which every value is 1 has only one thing to say.
    """
    memory = torch.tensor([[1.0, 0.1], [0.5, 0.5], [0.0, 1.0], [-0.8, 0.2]])
    scores = regard.scores(memory, memory, score="dot")  # each candidate asks all four: (L, S) = (4, 4)
    right = regard.weights(memory, memory, score="dot")
    wrong = torch.softmax(scores, dim=-2)
    ones = torch.ones(4, 1)
    return {
        "right: first row": right[0].tolist(),
        "wrong: first row": wrong[0].tolist(),
        "right: sum of each row": right.sum(-1).tolist(),
        "wrong: sum of each row": wrong.sum(-1).tolist(),
        "right: reading ones": (right @ ones)[:, 0].tolist(),
        "wrong: reading ones": (wrong @ ones)[:, 0].tolist(),
    }
