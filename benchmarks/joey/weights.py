"""What our weights are called in JoeyNMT, so that both decode by one model."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from benchmarks.joey.config import EMBEDDING_ROWS

__all__ = ["joeys", "name"]

EMBEDDINGS = ("src_embed.lut.weight", "trg_embed.lut.weight", "decoder.output_layer.weight")  # one table there too
PROJECTIONS = {"query": "q_layer", "key": "k_layer", "value": "v_layer", "out": "output_layer"}
FEED = {
    "feed.0": "feed_forward.pwff_layer.0",
    "feed.2": "feed_forward.pwff_layer.3",
    "after_feed.norm": "feed_forward.layer_norm",
}
PARTS = {
    "encoder": {"own": "src_src_att", "after_own.norm": "layer_norm", **FEED},
    "decoder": {
        "own": "trg_trg_att",
        "cross": "src_trg_att",
        "after_own.norm": "x_layer_norm",
        "after_cross.norm": "dec_layer_norm",
        **FEED,
    },
}


def name(ours: str) -> str:
    """The name there of one of our weights that is no embedding.

    >>> name("decoder.2.cross.query.bias"), name("encoder_norm.weight")
    ('decoder.layers.2.src_trg_att.q_layer.bias', 'encoder.layer_norm.weight')
    """
    side, *middle, kind = ours.split(".")
    if not middle:
        return f"{side.removesuffix('_norm')}.layer_norm.{kind}"
    number, *inner = middle
    part = ".".join(inner)
    there = PARTS[side].get(part) or f"{PARTS[side][inner[0]]}.{PROJECTIONS[inner[1]]}"
    return f"{side}.layers.{number}.{there}.{kind}"


def joeys(ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a Transformer of one embedding under its names; the special pieces change their rows."""
    found = {name(each): tensor for each, tensor in ours.items() if each != "target_embedding.weight"}
    table = ours["target_embedding.weight"].clone()
    table[: len(EMBEDDING_ROWS)] = table[list(EMBEDDING_ROWS)]
    return found | dict.fromkeys(EMBEDDINGS, table)
