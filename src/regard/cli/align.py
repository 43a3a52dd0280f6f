"""`regard align`: which word answers to which, for a parallel corpus, with a model trained here or one saved before."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from regard.align.recipe import Recipe, Sampling

__all__ = ["align"]

#: Options that say how to train, by their names in Python.
_TRAINING = ("model", "stages", "spelling", "save", "prior", "alpha", "variational", "classes", "peg", "seed", "spool")


def align(
    context: typer.Context,
    source: Annotated[
        Path, typer.Argument(metavar="SRC", help="Source text, a sentence a line; alone, both sides as s ||| t.")
    ],
    target: Annotated[
        Path | None, typer.Argument(metavar="TGT", help="Target text, a line for each of SRC.", show_default=False)
    ] = None,
    model: Annotated[
        str, typer.Option(help="best, agreement, sample, or a classical one: ibm1 to ibm5, diagonal, hmm.")
    ] = "best",
    stages: Annotated[
        str | None, typer.Option(help='Training in your own order: "ibm1:5 hmm:5", or "ibm1:4:mean hmm:4:product".')
    ] = None,
    symmetrize: Annotated[
        str | None,
        typer.Option(
            help="How both directions become one: soft, intersection, union, grow-diag, grow-diag-final or "
            "grow-diag-final-and; or forward or reverse alone. Left out: soft for best, agreement and sample, "
            "else grow-diag-final-and."
        ),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="What soft asks of a link: √(p(i|j) p(j|i)) above this. Left out: 0.5.")
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Print links as i-j:p with p = √(p(i|j) p(j|i)).")
    ] = False,
    both: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write each direction too, to FILE.forward and FILE.reverse.")
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Score on gold (i-j sure, i?j possible, from 0) of the last lines."),
    ] = None,
    dictionary: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the words that are linked, with counts.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page of shaded matrices.")] = None,
    attention: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="On the page, where a translator of `regard train` looked as well."),
    ] = None,
    beside: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Another aligner's links, for the page and the scores; may be repeated."),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the model after every iteration; what was killed goes on.")
    ] = None,
    load: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Train nothing: align with this model. SRC may be -.")
    ] = None,
    prior: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Known word pairs: source, target and count a line.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="The Dirichlet prior on translations; 0 is maximum likelihood.")
    ] = None,
    variational: Annotated[
        bool, typer.Option("--variational", help="Variational Bayes for translations; --alpha above 0.")
    ] = False,
    spelling: Annotated[
        float | None,
        typer.Option(help="Pseudo-count of a pair spelt the same, a share of it for alike. Best: 1, else 0."),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="N|FILE,FILE",
            help="Word classes for ibm4 and ibm5: how many to find (50), or a file a side, word and class a line.",
        ),
    ] = None,
    peg: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="For ibm3 to ibm5: hold each link once that is worth this share of the best, and climb anew; 0: all.",
        ),
    ] = None,
    tokenize: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="Cut raw text: words (Unicode's; Chinese and Japanese by character) or a SentencePiece model; "
            "HOW,HOW if the sides differ.",
        ),
    ] = None,
    spans: Annotated[bool, typer.Option("--spans", help="With --tokenize: print spans of characters.")] = False,
    longest: Annotated[int, typer.Option(min=1, help="A pair with a longer sentence has an empty line.")] = 1024,
    seed: Annotated[int, typer.Option(help="For models that draw; the others draw nothing.")] = 1,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Left out: all there are. The links are the same.", show_default=False)
    ] = None,
    spool: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the corpus in files here: it may exceed memory.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing of the training.")] = False,
) -> None:
    r"""Align the words of a parallel corpus: links such as 0-0 1-2, a line for each pair of sentences.

    Words are what spaces separate (lower-cased text aligns better); --tokenize
    cuts raw text. Files may be gzip. A pair with an empty side has an empty line:
    what comes out stays parallel to what went in. Under torchrun the sentences
    are divided over the processes and their counts added up.

    Examples:

      regard align train.en train.fr > links

      regard align both.gz --model hmm --symmetrize intersection > links

      regard align corpus.en corpus.fr --gold test.gold --html look.html > links

      regard align train.en train.fr --save en-fr > links

      regard align new.en new.fr --load en-fr

      regard align raw.en raw.ja --tokenize words --spans > spans

      regard align corpus.en corpus.fr --dictionary words.tsv > links

      torchrun --nproc-per-node 4 -m regard align train.en train.fr > links
    """
    from regard.cli.align_training import Training
    from regard.cli.aligning import Job, Outputs, Text
    from regard.errors import RegardError

    _check(symmetrize, spans, probabilities, tokenize, html, attention, source, target, load is not None)
    if beside and gold is None and html is None:
        raise RegardError("--beside: nothing shows these links; add --gold to score them or --html to see them")
    if load is not None:
        for name in _TRAINING:
            origin = context.get_parameter_source(name)
            if origin is not None and origin.name == "COMMANDLINE":
                raise RegardError(f"--{name}: --load trains nothing; leave one of them out")
    text = Text.of(source, target, tokenize, longest)
    number, files = _classes(classes)
    recipe = _recipe(model, stages, alpha, variational, spelling, number, peg)
    least = _least(threshold, symmetrize or ("soft" if load is not None else recipe.symmetrize))
    outputs = Outputs(
        symmetrize, least, probabilities, both, gold, dictionary, html, attention, tuple(beside or ()), spans
    )
    training = Training(recipe, save, prior, seed, spool, quiet, files)
    job = Job(text, outputs, threads)
    if load is not None:
        job.apply(load)
    else:
        job.train(training)
    sys.stdout.flush()


def _recipe(
    model: str,
    stages: str | None,
    alpha: float | None,
    variational: bool,
    spelling: float | None,
    classes: int | None,
    peg: float | None,
) -> Recipe | Sampling:
    from dataclasses import replace

    from regard.align.lexicon import Dirichlet
    from regard.align.recipe import Sampling, Stage, recipe
    from regard.errors import RegardError

    found = recipe(model)
    if spelling is not None:
        if not 0 <= spelling < float("inf"):
            raise RegardError(f"--spelling: found {spelling}, wanted a pseudo-count of at least 0")
        found = replace(found, spelling=spelling)
    if isinstance(found, Sampling):
        options = {
            "--stages": stages,
            "--alpha": alpha,
            "--variational": variational or None,
            "--classes": classes,
            "--peg": peg,
        }
        for name, given in options.items():
            if given is not None:
                raise RegardError(f"{name}: {model} draws links and trains no tables; leave {name} out")
        return found
    if stages is not None:
        if not stages.strip(" ,"):
            raise RegardError("--stages: found none, wanted MODEL:ITERATIONS, such as ibm1:5 hmm:5")
        found = replace(found, stages=tuple(Stage.of(each) for each in stages.replace(",", " ").split()))
    if alpha is not None:
        found = replace(found, prior=Dirichlet(alpha, alpha, variational))
    elif variational:
        found = replace(found, prior=replace(found.prior, variational=True))
    if classes is not None:
        found = replace(found, classes=classes)
    if peg is not None:
        found = replace(found, fertility=replace(found.fertility, peg=peg))
    return found


def _classes(asked: str | None) -> tuple[int | None, tuple[Path, Path] | None]:
    """How many classes, or the files that have them."""
    from regard.errors import RegardError

    if asked is None:
        return None, None
    if asked.isdecimal():
        if int(asked) < 1:
            raise RegardError("--classes: found 0, wanted at least 1, or two files as FILE,FILE")
        return int(asked), None
    files = [Path(each) for each in asked.split(",")]
    if len(files) != 2 or not all(each.is_file() for each in files):
        raise RegardError(f"--classes: found {asked!r}, wanted a number, or two files that are there as FILE,FILE")
    return None, (files[0], files[1])


def _least(threshold: float | None, symmetrize: str) -> float:
    """What soft links weigh at least."""
    from regard.errors import RegardError

    if threshold is None:
        return 0.5
    if not 0 < threshold < 1:
        raise RegardError(f"--threshold: found {threshold}, wanted more than 0 and less than 1")
    if symmetrize != "soft":
        raise RegardError(f"--threshold: {symmetrize} asks for none; leave it out, or say --symmetrize soft")
    return threshold


def _check(
    symmetrize: str | None,
    spans: bool,
    probabilities: bool,
    tokenize: str | None,
    html: Path | None,
    attention: Path | None,
    source: Path,
    target: Path | None,
    loaded: bool,
) -> None:
    """Raises where options do not go together, before anything is read."""
    from regard.align.symmetrize import METHODS
    from regard.cli.aligning import ONE_WAY
    from regard.errors import RegardError, unknown_name

    if symmetrize is not None and symmetrize not in (*METHODS, *ONE_WAY):
        raise unknown_name("symmetrize", symmetrize, (*METHODS, *ONE_WAY))
    if attention is not None and html is None:
        raise RegardError("--attention: it is drawn on the page; add --html FILE")
    if spans and tokenize is None:
        raise RegardError("--spans: the words are given as they are; add --tokenize words to cut raw text")
    if spans and probabilities:
        raise RegardError("--probabilities: spans are printed without; leave one of them out")
    if not loaded and str(source) == "-":
        raise RegardError("SRC: - is read with --load alone; training reads its text more than once, give it a file")
    if str(source) == "-" and target is not None:
        raise RegardError("TGT: with - as SRC both sides are on its lines, as source ||| target")
    for name, path in (("SRC", source), ("TGT", target)):
        if path is not None and str(path) != "-" and not path.is_file():
            what = "is no file that can be read twice; give a plain or a gzip one" if path.exists() else "is not there"
            raise RegardError(f"{name}: {path} {what}")
