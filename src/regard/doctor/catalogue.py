"""The stable codes: what each names, how bad it is, and how to mend it in one sentence.

Every code has a page, ``docs/findings/CODE.md``. A code is never used again for something else.
"""

from __future__ import annotations

from typing import NamedTuple

from regard.errors import unknown_name


class Entry(NamedTuple):
    severity: str
    title: str
    fix: str


FAMILIES = {
    "PAD": "padding",
    "CAU": "future",
    "DOC": "packed documents",
    "BAT": "company in a batch",
    "CCH": "cache",
    "POS": "positions",
    "MSK": "mask meaning, value or empty row",
    "AXS": "axis, layout or head pairing",
    "SCL": "scale and saturation",
    "NUM": "precision and NaN",
    "HED": "head health",
    "DET": "determinism",
    "PTH": "the path that ran",
    "API": "an option accepted and ignored",
}

CATALOGUE: dict[str, Entry] = {
    "PAD001": Entry(
        "error",
        "Padding is read by real tokens",
        "Hide padded keys from every query before the softmax: a boolean mask (True = may look), or −inf on their "
        "scores.",
    ),
    "PAD002": Entry(
        "error",
        "More padding changes real outputs",
        "Derive everything that depends on the length (positions, pooling, statistics, what a softmax runs over) from "
        "the mask, not from the width of the batch.",
    ),
    "PAD003": Entry(
        "warning",
        "The mask calls padding real",
        "Build the mask from lengths or from ids != pad id; a mask must be 0 (False) on every pad.",
    ),
    "PAD004": Entry(
        "error",
        "The decoder reads padding of the source",
        "Pass the source's mask to the cross-attention of every decoder layer.",
    ),
    "CAU001": Entry(
        "error",
        "Later tokens reach earlier outputs",
        "Apply the causal mask in this module on every path, also when no mask or an all-ones mask is given.",
    ),
    "CAU002": Entry(
        "error",
        "An output cannot see what it may see",
        "Check the mask's direction and shape in this module: it hides tokens that the model is said to see.",
    ),
    "CAU003": Entry(
        "warning",
        "Causal in some cases and not in others",
        "Make the mask the same whatever is asked of the call: other masks, dropout and weights must not change it.",
    ),
    "CAU004": Entry(
        "error",
        "Causal triangle anchored at the start on a cached call",
        "Anchor the triangle at the end where there are more keys than queries (causal_lower_right, or "
        'regard.mask.causal(anchor="end")), or drop is_causal for one query.',
    ),
    "DOC001": Entry(
        "error",
        "Packed documents see each other",
        "Give attention a mask of equal document ids; positions that start again are no mask.",
    ),
    "BAT001": Entry(
        "error",
        "A row depends on the rows beside it",
        "Look for an operation over the batch axis: a reshape without a transpose, a mask broadcast over the wrong "
        "axis, statistics of the batch.",
    ),
    "CCH001": Entry(
        "error",
        "Steps with the cache differ from one pass",
        "Compare positions, mask and keys of a cached step with those of the full pass at the same place.",
    ),
    "CCH002": Entry(
        "error",
        "Several tokens on a filled cache differ from one pass",
        "Between the new tokens the triangle still holds, anchored at the end of the keys.",
    ),
    "CCH003": Entry(
        "error",
        "The cache is wrong with left padding",
        "Keep the padding of the prefix in the mask of every step, and count positions per row from the mask.",
    ),
    "CCH004": Entry(
        "error",
        "A cropped cache is not what it was at that length",
        "Cropping must drop keys, values and the count of tokens seen together, in every layer.",
    ),
    "CCH005": Entry(
        "error",
        "A reordered cache mixes rows",
        "Reorder keys, values and per-row state of every layer by the same index.",
    ),
    "CCH006": Entry(
        "error",
        "Room that is not used changes outputs",
        "Hide slots of the cache that nothing was written to, whatever its capacity.",
    ),
    "POS001": Entry(
        "note",
        "Left padding shifts positions unless they are given",
        "Pass position_ids = (mask.cumsum(-1) - 1).clamp(min=0) with a left-padded batch.",
    ),
    "POS002": Entry(
        "note",
        "Left padding shifts positions and nothing repairs it",
        "Pad on the right, or count positions from the mask inside the model.",
    ),
    "POS003": Entry(
        "error",
        "Order changes a model that is said to read a set",
        "Look for a position, a reshape that mixes heads with tokens, or an operation over the token axis.",
    ),
    "POS004": Entry(
        "warning",
        "A window reaches further or less than declared",
        "A window of W keys holds the token itself and W − 1 before it; flash kernels count neighbours, not keys.",
    ),
    "POS005": Entry(
        "warning",
        "Left padding is wrong even with positions given",
        "Use the given positions everywhere that a position matters: embeddings, rotations, biases, and the mask.",
    ),
    "MSK001": Entry(
        "error",
        "Mask the wrong way round",
        "Invert it: scaled_dot_product_attention reads True as may look, nn.MultiheadAttention as hide.",
    ),
    "MSK002": Entry(
        "error",
        "A 0/1 mask was added to the scores",
        "Make it boolean, or 0 and −inf; adding 0 and 1 hides nothing.",
    ),
    "MSK003": Entry(
        "warning",
        "A finite constant stands for −inf",
        "Use a boolean mask or −inf, and give rows with nothing to see a defined read of 0.",
    ),
    "MSK004": Entry(
        "error",
        "Hidden keys keep weight",
        "Mask the scores before the softmax, with −inf.",
    ),
    "MSK005": Entry(
        "warning",
        "Queries with nothing to see",
        "Give these queries a key to see (themselves, or a first token), or make their read 0 on purpose.",
    ),
    "MSK006": Entry(
        "warning",
        "Mask and causal flag both given",
        "Put the triangle into the mask and drop the flag: paths differ in whether they use one, both, or raise.",
    ),
    "MSK007": Entry(
        "error",
        "Mask applied after the softmax",
        "Mask the scores before the softmax; hidden keys already took their share of the sum.",
    ),
    "AXS001": Entry(
        "error",
        "Softmax over an axis that is not the keys'",
        "Normalise over the last axis of (…, queries, keys).",
    ),
    "AXS002": Entry(
        "error",
        "Query heads read the wrong key heads",
        "Query head h reads key head h // (H // G): repeat_interleave on the head axis, not repeat or tile.",
    ),
    "AXS003": Entry(
        "error",
        "Heads split without a transpose",
        "Split with view(B, L, H, D).transpose(1, 2): a plain view to (B, H, L, D) mixes tokens with heads.",
    ),
    "AXS004": Entry(
        "error",
        "Attention runs over an axis that is not the tokens'",
        "Give scaled_dot_product_attention (B, H, L, D): with (B, L, H, D) every token attends over its own heads.",
    ),
    "SCL001": Entry(
        "warning",
        "Scores are not scaled",
        "Divide the scores by the square root of the key width.",
    ),
    "SCL002": Entry(
        "warning",
        "Scores are scaled twice",
        "Scale once: scaled_dot_product_attention already divides by the square root of the key width.",
    ),
    "SCL003": Entry(
        "warning",
        "Scores near the format's limit",
        "Scale queries before the product, normalise queries and keys, or compute scores in float32.",
    ),
    "SCL004": Entry(
        "note",
        "Saturated head",
        "Check the norm of queries and keys; a head whose every row is one-hot passes almost no gradient to them.",
    ),
    "SCL005": Entry(
        "note",
        "Uniform head",
        "Check scale, and that queries and keys are trained: the head averages over everything it sees.",
    ),
    "NUM001": Entry(
        "error",
        "NaN or inf in the output",
        "Look at the first module with a value that is not finite: a row with nothing to see, or an overflow.",
    ),
    "NUM002": Entry(
        "warning",
        "Half precision drifts further than the format explains",
        "Keep positions, frequencies, scores' sums and norms of this module in float32.",
    ),
    "NUM003": Entry(
        "error",
        "NaN or inf in a gradient",
        "A row with nothing to see makes a plain softmax NaN: give it a read of 0, or a key to see.",
    ),
    "HED001": Entry(
        "warning",
        "Dead head",
        "Check that the head's values and its columns of the output projection are not zero.",
    ),
    "HED002": Entry(
        "note",
        "Two heads look alike",
        "Check that heads have weights of their own, and that the split did not copy one.",
    ),
    "HED003": Entry(
        "note",
        "Head rests on the first token",
        "Nothing to mend: a head that has nothing to say puts its weight there. Look at it without that column.",
    ),
    "HED004": Entry(
        "warning",
        "No gradient reaches a head",
        "Look for a detach, a frozen projection, or a constant softmax in this module.",
    ),
    "DET001": Entry(
        "error",
        "Two runs in eval mode differ",
        "Pass dropout_p = self.p if self.training else 0.0, and draw nothing in eval mode.",
    ),
    "DET002": Entry(
        "error",
        "Dropout is on in eval mode",
        "Pass dropout_p = self.p if self.training else 0.0: the function does not know the mode.",
    ),
    "DET003": Entry(
        "error",
        "A call leaves something behind that changes the next",
        "Keep state out of the module: return it, or reset it at the start of each call.",
    ),
    "PTH001": Entry(
        "note",
        "Attention took the path with a quadratic matrix",
        "See the reason in the message; a fused kernel needs no dropout, equal widths, and weights not asked for.",
    ),
    "PTH002": Entry(
        "note",
        "Watching changed the path",
        "Outputs at padded places may differ from an unwatched run; the probes ran unwatched.",
    ),
    "PTH003": Entry(
        "warning",
        "Two paths of one model disagree",
        "The fused path of eval mode and the plain one differ at real tokens: compare the masks that each is given.",
    ),
    "API001": Entry(
        "warning",
        "An argument is accepted and ignored",
        "Use it or refuse it: an accepted argument that changes nothing hides mistakes.",
    ),
    "API002": Entry(
        "note",
        "Weights were asked for and none came",
        'Ask a model on attn_implementation="eager" for weights, or use regard.watch, which needs none.',
    ),
}


def entry(code: str) -> Entry:
    if code not in CATALOGUE:
        raise unknown_name("code", code, CATALOGUE)
    return CATALOGUE[code]
