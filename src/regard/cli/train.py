"""`regard train`: learn to translate from two files of sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from regard.cli.sizes import with_sizes
from regard.translate.models import ARCHITECTURES
from regard.translate.models.sizes import Size
from regard.translate.text.vocabulary import Kind
from regard.translate.training.optimisers import OPTIMISERS
from regard.translate.training.schedules import SCHEDULES

__all__ = ["train"]

TEXT, COURSE, MIND = "Text", "Course of the training", "Against learning by heart"
RATE, RUN, SEEN = "Optimiser and learning rate", "The run", "What is told of it"


def _of(panel: str, says: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=says, metavar=metavar, rich_help_panel=panel)


@with_sizes
def train(
    src: Annotated[Path, _of(TEXT, "Source sentences, UTF-8, one a line.", metavar="FILE")],
    tgt: Annotated[Path, _of(TEXT, "Their translations, line by line.", metavar="FILE")],
    dev_src: Annotated[Path, _of(TEXT, "Source sentences to test on while training.", metavar="FILE")],
    dev_tgt: Annotated[Path, _of(TEXT, "Their translations.", metavar="FILE")],
    out: Annotated[Path, _of(RUN, "Where the model and the run's state go.", metavar="DIR")],
    start: Annotated[
        Path | None, _of(RUN, "Begin with this model's weights and vocabularies.", "--from", metavar="DIR")
    ] = None,
    source_pieces: Annotated[int, _of(TEXT, "Size of the source vocabulary.")] = 4000,
    target_pieces: Annotated[int, _of(TEXT, "Size of the target vocabulary.")] = 4000,
    pieces: Annotated[str, _of(TEXT, f"Kind of pieces: {', '.join(get_args(Kind))}.")] = "unigram",
    joint: Annotated[bool, _of(TEXT, "One vocabulary for both sides, learnt from both.")] = False,
    max_length: Annotated[int, _of(TEXT, "Leave out pairs with more pieces on a side.")] = 80,
    model: Annotated[str, _of("Sizes of the model", f"Architecture: {', '.join(ARCHITECTURES)}.")] = "bahdanau",
    epochs: Annotated[int, _of(COURSE, "Passes over the text.")] = 20,
    batch_tokens: Annotated[int, _of(COURSE, "Most pieces in a batch, both sides, padding counted.")] = 4096,
    accumulate: Annotated[int, _of(COURSE, "Batches an update: the loss is the mean over all their pieces.")] = 1,
    patience: Annotated[int, _of(COURSE, "Stop after so many epochs without a better one; 0: never.")] = 5,
    stop_on: Annotated[str, _of(COURSE, "What makes an epoch better: bleu or loss, on the dev text.")] = "bleu",
    tokenize: Annotated[str, _of(COURSE, "sacrebleu's tokeniser for BLEU: 13a, zh, none, char, intl.")] = "13a",
    optimiser: Annotated[str, _of(RATE, f"One of {', '.join(OPTIMISERS)}.")] = "adam",
    rate: Annotated[
        float | None, _of(RATE, "Full learning rate. Left out: adadelta 1, sgd 0.7, adagrad 0.01, others 0.001.")
    ] = None,
    schedule: Annotated[str, _of(RATE, f"How the rate goes on: {', '.join(SCHEDULES)}.")] = "cosine",
    warmup: Annotated[int, _of(RATE, "Updates in which the rate climbs.")] = 400,
    clip: Annotated[float, _of(RATE, "Largest gradient norm; 0: any.")] = 1.0,
    beta1: Annotated[float | None, _of(RATE, "Adam's kind: decay of the mean (0.9).")] = None,
    beta2: Annotated[float | None, _of(RATE, "Adam's kind: decay of the squares (0.999).")] = None,
    eps: Annotated[float | None, _of(RATE, "All but sgd: what keeps a division from zero.")] = None,
    rho: Annotated[float | None, _of(RATE, "adadelta (0.95), rmsprop (0.99): decay of the squares.")] = None,
    momentum: Annotated[float | None, _of(RATE, "sgd, rmsprop: how much of a step the next one keeps (0).")] = None,
    weight_decay: Annotated[float | None, _of(RATE, "adamw (0.01), sgd (0): pull of the weights to 0.")] = None,
    halve_after: Annotated[float | None, _of(RATE, "halving: epochs at the full rate (5).")] = None,
    halve_every: Annotated[float | None, _of(RATE, "halving: epochs from one halving to the next (0.5).")] = None,
    dropout: Annotated[float, _of(MIND, "Share of features dropped in training.")] = 0.3,
    smoothing: Annotated[float, _of(MIND, "Label smoothing.")] = 0.1,
    ema: Annotated[float, _of(MIND, "Decay of the averaged weights that are kept; 0: off.")] = 0.999,
    sample: Annotated[float, _of(MIND, "Draw pieces anew each epoch, with probability ∝ P^SAMPLE; 0: off.")] = 0.0,
    plain: Annotated[int, _of(MIND, "Last epochs that draw no pieces, as translating will not.")] = 0,
    device: Annotated[str, _of(RUN, "cpu, cuda, or auto: a GPU where there is one.")] = "cpu",
    precision: Annotated[str, _of(RUN, "float32, or bfloat16 for the matrix products.")] = "float32",
    seed: Annotated[int, _of(RUN, "Seed of weights, order and dropout.")] = 1,
    minutes: Annotated[float | None, _of(RUN, "Save and stop after so long; run again to go on.")] = None,
    threads: Annotated[int | None, _of(RUN, "Processor threads; all when left out.")] = None,
    save_every: Annotated[float, _of(RUN, "Seconds between saves.")] = 120.0,
    events: Annotated[
        str | None,
        _of(SEEN, "For TensorBoard; OUT/events where that is installed and this is left out; -: none.", metavar="DIR"),
    ] = None,
    plot: Annotated[
        str | None,
        _of(
            SEEN,
            "Entropy of every look, epoch by epoch: svg, png or pdf; left out: OUT/entropy.svg; -: none.",
            metavar="FILE",
        ),
    ] = None,
    *,
    sizes: dict[str, Size],
) -> None:
    """Learn a translator that looks at the source as it writes: Bahdanau's encoder-decoder, or a Transformer.

    Line n of --src is translated by line n of --tgt. Stop it at any moment, by Ctrl-C or worse: the same command
    goes on where it stopped, and ends as if it had never stopped. DIR then holds a model for
    `regard translate --model DIR`. Under torchrun the processes share every update.

    Examples:

      regard train --src train.en --tgt train.fr --dev-src dev.en --dev-tgt dev.fr --out runs/en-fr

      regard train --src train.en --tgt train.zh --dev-src dev.en --dev-tgt dev.zh --out runs/en-zh --tokenize zh

      regard train ... --model transformer --layers 3 --width 256 --dropout 0.1 --accumulate 4

      regard train ... --schedule inverse-sqrt --warmup 4000 --rate 7e-4 --beta2 0.98 --eps 1e-9 --clip 0

      regard train ... --optimiser adadelta --schedule constant --warmup 0 --stop-on loss

      torchrun --nproc-per-node 4 -m regard train ... --accumulate 4 --threads 1

      regard train ... --pieces bpe --joint --model transformer --shared

      regard train ... --minutes 10 --precision bfloat16 --threads 1 --events runs/events --plot entropy.png
    """
    from rich.console import Console

    from regard.translate.training.events import installed
    from regard.translate.training.exam import best_of
    from regard.translate.training.progress import report_to
    from regard.translate.training.ranks import Elsewhere, ranks
    from regard.translate.training.run import train as run
    from regard.translate.training.settings import Settings

    def asked() -> Settings:
        return Settings(
            source_pieces=source_pieces,
            target_pieces=target_pieces,
            pieces=pieces,  # type: ignore[arg-type]  # checked by Settings, as all names are
            joint=joint,
            model=model,
            sizes=sizes,
            dropout=dropout,
            epochs=epochs,
            batch_tokens=batch_tokens,
            max_length=max_length,
            accumulate=accumulate,
            optimiser=optimiser,
            optimiser_numbers=_given(
                beta1=beta1, beta2=beta2, eps=eps, rho=rho, momentum=momentum, weight_decay=weight_decay
            ),
            rate=rate,
            schedule=schedule,
            schedule_numbers=_given(halve_after=halve_after, halve_every=halve_every),
            warmup=warmup,
            clip=clip,
            smoothing=smoothing,
            ema=ema,
            sample=sample,
            plain=plain,
            patience=patience,
            stop_on=stop_on,  # type: ignore[arg-type]  # checked by Settings, which lists the names
            tokenize=tokenize,  # type: ignore[arg-type]  # the same
            precision=precision,  # type: ignore[arg-type]  # the same
            seed=seed,
        )

    try:
        with ranks() as group:
            first = group.rank == 0
            settings = group.agreed(asked)
            with report_to(Console(stderr=True, quiet=not first)) as report:
                outcome = run(
                    src,
                    tgt,
                    dev_src,
                    dev_tgt,
                    out,
                    settings,
                    start=start,
                    minutes=minutes,
                    threads=threads,
                    device=device,
                    save_every=save_every,
                    events=_place(events, out / "events" if installed() else None),
                    plot=_place(plot, out / "entropy.svg"),
                    report=report,
                )
    except Elsewhere:  # where it was found it is told, and once is enough
        raise typer.Exit(2) from None
    if not outcome.finished and minutes is None:
        raise typer.Exit(130)  # interrupted
    if first:
        typer.echo(f"{out}: {outcome.updates} updates, best {best_of(settings, outcome.best)}")


def _given(**numbers: float | None) -> dict[str, float]:
    """Those that were given: a rule refuses what is not its own."""
    return {name: number for name, number in numbers.items() if number is not None}


def _place(given: str | None, otherwise: Path | None) -> Path | None:
    """Where to write: what was given, nowhere for a dash, or ``otherwise``."""
    if given is None:
        return otherwise
    return None if given == "-" else Path(given)
