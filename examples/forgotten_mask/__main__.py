"""The story with its numbers: both translators trained, used, counted, and examined."""

from __future__ import annotations

import argparse
from statistics import mean

from examples.forgotten_mask.translators import ARMS, TRANSLATORS
from examples.forgotten_mask.trial import Trial, examined, trial

ROWS = {
    "loss of the last 30 updates": "loss",
    "right in a batch, %": "right_in_batch",
    "right alone, %": "right_alone",
    "other words alone than in a batch, %": "differ",
    "words said again in a batch, %": "again_in_batch",
    "words said again alone, %": "again_alone",
    "said twice running alone, %": "twice_alone",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.forgotten_mask", description=__doc__)
    parser.add_argument("--model", choices=[*TRANSLATORS], default="gru")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--sorted", action="store_true", help="train on batches of sentences of like length")
    asked = parser.parse_args()
    arms = ("masked", "forgotten")
    print(f"{asked.model}, {asked.updates} updates, seeds {', '.join(map(str, asked.seeds))}\n", flush=True)
    found: dict[str, list[Trial]] = {arm: [] for arm in arms}
    for seed in asked.seeds:
        for arm in arms:
            found[arm].append(trial(asked.model, arm, seed, asked.updates, asked.sorted))
            one = found[arm][-1]
            print(
                f"seed {seed}, {arm:9}  " + "  ".join(f"{getattr(one, name):5.2f}" for name in ROWS.values()),
                flush=True,
            )
    print(f"\nmean{'':37}" + "".join(f"{arm:>11}" for arm in arms))
    for said, name in ROWS.items():
        means = (mean(getattr(one, name) for one in found[arm]) for arm in arms)
        print(f"{said:41}" + "".join(f"{value:11.2f}" for value in means), flush=True)
    for arm, trials in found.items():
        print(f"\n{arm}")
        for said, words in zip(("source", "wanted", "in a batch", "alone"), trials[0].worst, strict=True):
            print(f"  {said:12} {words}")
    print("\nregard.check")
    for arm in ARMS:
        seconds, codes = examined(asked.model, arm)
        print(f"  {arm:12} {seconds:4.1f} s   {'; '.join(codes) or 'nothing to say'}")


if __name__ == "__main__":
    main()
