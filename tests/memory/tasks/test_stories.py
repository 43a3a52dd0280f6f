"""Stories: questions on stories written by hand, supports that are needed and enough, and nothing told at the end."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.tasks import Stories
from regard.memory.tasks.events import PLACES
from regard.memory.tasks.stories import NUMBER, WORDS

FACTS = [1, 2, 3]


def stream(text: str) -> Tensor:
    """A story written by hand, as the task's steps: six a sentence, then the question."""
    *told, question = text.strip().split("\n")
    steps = [[*sentence.replace(".", " .").split(), ""][:6] for sentence in told]
    words = [word for sentence in steps for word in sentence] + question.replace("?", " ?").split()
    return torch.tensor([[NUMBER[word] for word in words]])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def story(*lines: str) -> str:
    return "\n".join(lines)


BY_HAND = [
    (
        1,
        story("anna went to the hall.", "ben went to the attic.", "anna went to the shed.", "where is anna?"),
        [2],
        "shed",
    ),
    (
        2,
        story(
            "anna went to the hall.",
            "anna took the lamp.",
            "anna went to the attic.",
            "anna dropped the lamp.",
            "anna went to the porch.",
            "where is the lamp?",
        ),
        [3, 2],
        "attic",
    ),
    (
        2,
        story(
            "anna went to the hall.",
            "ben went to the hall.",
            "anna took the lamp.",
            "anna dropped the lamp.",
            "ben took the lamp.",
            "anna went to the attic.",
            "where is the lamp?",
        ),
        [4, 1],
        "hall",
    ),
    (
        3,
        story(
            "anna went to the hall.",
            "anna took the lamp.",
            "anna went to the attic.",
            "anna went to the shed.",
            "anna went to the porch.",
            "where was the lamp before the shed?",
        ),
        [1, 3, 2],
        "attic",
    ),
    (
        3,
        story(
            "anna went to the hall.",
            "anna took the lamp.",
            "anna went to the attic.",
            "anna went to the hall.",
            "anna went to the attic.",
            "anna dropped the lamp.",
            "anna went to the porch.",
            "where was the lamp before the attic?",
        ),
        [1, 4, 3],
        "hall",
    ),
]


@pytest.mark.parametrize(("facts", "text", "support", "answer"), BY_HAND)
def test_by_hand(facts: int, text: str, support: list[int], answer: str) -> None:
    task, inputs = Stories(facts=facts), stream(text)
    assert WORDS[int(task.oracle(inputs)[0, -1])] == answer
    assert task.supports(inputs).tolist() == [support]
    sentences, question = task.heard(inputs)
    told = [" ".join(WORDS[w] for w in words if w) + "." for words in sentences[0].tolist()]
    assert "\n".join([*told, " ".join(WORDS[w] for w in question[0].tolist()) + "?"]) == text


@pytest.mark.parametrize("facts", FACTS)
def test_told_and_streamed_are_the_same_stories(facts: int) -> None:
    task = Stories(facts=facts, sentences=(5, 11))
    story = task.tell(60, generator())
    example = task.draw(60, generator(), ragged=True)
    sentences, question = task.heard(example.inputs)
    assert torch.equal(sentences[..., : story.sentences.shape[-1]], story.sentences)
    assert torch.equal(question, story.question)
    assert torch.equal(task.supports(example.inputs), story.support)
    assert torch.equal(example.targets[example.asked], story.answer)
    assert story.support.shape == (60, facts)
    assert bool((story.support < story.valid.sum(1, keepdim=True) - 1).all()), "the last sentence supports nothing"


@pytest.mark.parametrize("facts", FACTS)
def test_without_one_of_its_supports_a_story_does_not_give_the_answer(facts: int) -> None:
    """Each marked sentence is needed: where it is left out, looking back finds another answer, or none."""
    task = Stories(facts=facts, sentences=(8, 8))
    story = task.tell(80, generator())
    changed = torch.zeros(facts)
    for row in range(80):
        for n, left_out in enumerate(story.support[row].tolist()):
            kept = [one for i, one in enumerate(story.sentences[row].tolist()) if i != left_out]
            words = [[*(w for w in one if w), NUMBER["."], 0][:6] for one in kept]
            inputs = torch.tensor([[*(w for one in words for w in one), *story.question[row].tolist(), NUMBER["?"]]])
            try:
                answer = int(task.oracle(inputs)[0, -1])
            except (RegardError, KeyError, ValueError):
                answer = -1  # the story has become impossible
            changed[n] += answer != int(story.answer[row])
    assert bool((changed > 0.6 * 80).all())  # what was before it may name the same place by chance


@pytest.mark.parametrize("facts", FACTS)
def test_the_last_sentence_does_not_tell(facts: int) -> None:
    """The place in the last sentence, where there is one, is the answer no oftener than any other place."""
    task = Stories(facts=facts, sentences=(6, 12))
    story = task.tell(2000, generator())
    last = story.sentences[torch.arange(2000), story.valid.sum(1) - 1]
    places = torch.tensor([NUMBER[place] for place in PLACES])
    named = torch.isin(last, places)
    told = (last * named).sum(-1)
    n = int(named.any(-1).sum())
    right = float((told == story.answer)[named.any(-1)].double().mean())
    assert right < 1 / 6 + 4.5 * math.sqrt(1 / 6 * 5 / 6 / n) + 0.02


def test_answers_are_as_likely_as_each_other() -> None:
    story = Stories(facts=1, sentences=(6, 6)).tell(3000, generator())
    share = torch.bincount(story.answer, minlength=len(WORDS)).double() / 3000
    at = [NUMBER[place] for place in PLACES[:6]]
    assert float(share[at].sum()) == 1.0
    assert float((share[at] - 1 / 6).abs().max()) < 4.5 * math.sqrt(1 / 6 * 5 / 6 / 3000)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"facts": 0}, "facts is 0"),
        ({"facts": 4}, "facts is 4, wanted at most 3"),
        ({"people": 1}, "people is 1"),
        ({"places": 9}, "places is 9, wanted at most 8"),
        ({"things": 0}, "things is 0"),
        ({"facts": 3, "sentences": (4, 9)}, "sentences is"),
    ],
)
def test_bad_sizes_are_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        Stories(**sizes)  # type: ignore[arg-type]


def test_what_is_no_story_is_refused() -> None:
    with pytest.raises(RegardError, match="takes the lamp where it is not"):
        Stories(facts=2).oracle(
            stream(
                story(
                    "anna went to the hall.",
                    "anna took the lamp.",
                    "anna dropped the lamp.",
                    "anna went to the attic.",
                    "anna took the lamp.",
                    "where is the lamp?",
                )
            )
        )
    with pytest.raises(RegardError, match="nothing answers 'ben'"):
        Stories().supports(stream(story("anna went to the hall.", "anna went to the attic.", "where is ben?")))
