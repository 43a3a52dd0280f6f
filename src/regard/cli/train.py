"""`regard train`: learn to translate from two files of sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.sizes import with_sizes
from regard.translate.models import ARCHITECTURES
from regard.translate.models.sizes import Size

__all__ = ["train"]


@with_sizes
def train(
    src: Annotated[Path, typer.Option(metavar="FILE", help="Source sentences, UTF-8, one a line.")],
    tgt: Annotated[Path, typer.Option(metavar="FILE", help="Their translations, line by line.")],
    dev_src: Annotated[Path, typer.Option(metavar="FILE", help="Source sentences to test on while training.")],
    dev_tgt: Annotated[Path, typer.Option(metavar="FILE", help="Their translations.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the model and the run's state go.")],
    start: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Begin with this model's weights and vocabularies."),
    ] = None,
    source_pieces: Annotated[int, typer.Option(help="Size of the source vocabulary.")] = 4000,
    target_pieces: Annotated[int, typer.Option(help="Size of the target vocabulary.")] = 4000,
    model: Annotated[str, typer.Option(help=f"Architecture: {', '.join(ARCHITECTURES)}.")] = "bahdanau",
    dropout: Annotated[float, typer.Option(help="Share of features dropped in training.")] = 0.3,
    epochs: Annotated[int, typer.Option(help="Passes over the text; the learning rate ends at 0 with them.")] = 20,
    batch_tokens: Annotated[int, typer.Option(help="Most pieces in a batch, both sides, padding counted.")] = 4096,
    max_length: Annotated[int, typer.Option(help="Leave out pairs with more pieces on a side.")] = 80,
    rate: Annotated[float, typer.Option(help="Highest learning rate (Adam).")] = 1e-3,
    warmup: Annotated[int, typer.Option(help="Updates in which the rate climbs.")] = 400,
    clip: Annotated[float, typer.Option(help="Largest gradient norm.")] = 1.0,
    smoothing: Annotated[float, typer.Option(help="Label smoothing.")] = 0.1,
    ema: Annotated[float, typer.Option(help="Decay of the averaged weights that are kept; 0: off.")] = 0.999,
    sample: Annotated[
        float, typer.Option(help="Draw pieces anew each epoch, with probability ∝ P^SAMPLE; 0: off.")
    ] = 0.0,
    plain: Annotated[int, typer.Option(help="Last epochs that draw no pieces, as translating will not.")] = 0,
    patience: Annotated[int, typer.Option(help="Stop after so many epochs without a better BLEU; 0: never.")] = 5,
    tokenize: Annotated[str, typer.Option(help="sacrebleu's tokeniser for BLEU: 13a, zh, none, char, intl.")] = "13a",
    precision: Annotated[str, typer.Option(help="float32, or bfloat16 for the matrix products.")] = "float32",
    seed: Annotated[int, typer.Option(help="Seed of weights, order and dropout.")] = 1,
    minutes: Annotated[float | None, typer.Option(help="Save and stop after so long; run again to go on.")] = None,
    threads: Annotated[int | None, typer.Option(help="Processor threads; all when left out.")] = None,
    save_every: Annotated[float, typer.Option(help="Seconds between saves.")] = 120.0,
    *,
    sizes: dict[str, Size],
) -> None:
    """Learn a translator that looks at the source as it writes: Bahdanau's encoder-decoder, or a Transformer.

    Line n of --src is translated by line n of --tgt. Stop it at any moment, by Ctrl-C or worse: the same command
    goes on where it stopped, and ends as if it had never stopped. DIR then holds a model for
    `regard translate --model DIR`.

    Examples:

      regard train --src train.en --tgt train.fr --dev-src dev.en --dev-tgt dev.fr --out runs/en-fr

      regard train --src train.en --tgt train.zh --dev-src dev.en --dev-tgt dev.zh --out runs/en-zh --tokenize zh

      regard train ... --model transformer --layers 3 --width 256 --dropout 0.1

      regard train ... --minutes 10 --precision bfloat16 --threads 1
    """
    from rich.console import Console

    from regard.translate.training.progress import report_to
    from regard.translate.training.run import train as run
    from regard.translate.training.settings import Settings

    settings = Settings(
        source_pieces=source_pieces,
        target_pieces=target_pieces,
        model=model,
        sizes=sizes,
        dropout=dropout,
        epochs=epochs,
        batch_tokens=batch_tokens,
        max_length=max_length,
        rate=rate,
        warmup=warmup,
        clip=clip,
        smoothing=smoothing,
        ema=ema,
        sample=sample,
        plain=plain,
        patience=patience,
        tokenize=tokenize,  # type: ignore[arg-type]  # checked by Settings, which lists the names
        precision=precision,  # type: ignore[arg-type]
        seed=seed,
    )
    with report_to(Console(stderr=True)) as report:
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
            save_every=save_every,
            report=report,
        )
    if not outcome.finished and minutes is None:
        raise typer.Exit(130)  # interrupted
    best = "none yet" if outcome.best is None else f"{outcome.best:.2f}"
    typer.echo(f"{out}: {outcome.updates} updates, best dev BLEU {best}")
