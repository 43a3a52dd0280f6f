"""Stories in the manner of bAbI's first three tasks: people walk about and carry things; where is what?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.tasks.base import Example, Task
from regard.memory.tasks.events import PEOPLE, PLACES, THINGS, Event, happening, heard, simulated, supported
from regard.memory.tasks.forms import Symbols
from regard.memory.tasks.sizes import check_least, check_range, one_of

OTHERS = ("", ".", "?", "the", "where", "is", "was", "before", "went", "to", "took", "dropped")
WORDS = (*OTHERS, *PLACES, *PEOPLE, *THINGS)
"""All words, by their numbers. 0 is no word."""
STEPS = 6
"""How many steps a sentence takes, its full stop included."""
NUMBER = {word: number for number, word in enumerate(WORDS)}


class Story(NamedTuple):
    """Stories with a question each, and what only a supervised learner may see: the sentences that answer it."""

    sentences: Tensor
    """Words (B, S, J), 0 behind a sentence's last word, and where a row has no sentence (its right end)."""
    question: Tensor
    """Words (B, Q), 0 behind the last."""
    answer: Tensor
    """The right word, (B,)."""
    support: Tensor
    """The sentences that together give the answer, in the order in which they are needed: places (B, facts)."""

    @property
    def valid(self) -> Tensor:
        """Booleans (B, S), True where there is a sentence."""
        return self.sentences[..., 0] != 0


@dataclass(frozen=True)
class Stories(Task):
    """Where a person is (1 supporting fact), where a thing is (2), where a thing was before a place (3).

    ``sentences`` is the range of how long a story is. A person walks, takes what lies where he stands, drops what he
    has; one event a sentence, whoever comes next. A thing that nobody has touched lies wherever it is first taken.
    What is asked is drawn among all questions that can be answered and whose supporting facts stand *before* the last
    sentence, so that the last sentence never tells. A sentence takes six steps, its words, a full stop and a pause
    (word 0) if it is short; behind the last one comes the question, and at its question mark the answer is asked.

    >>> task = Stories(facts=2, sentences=(7, 7))
    >>> example = task.draw(1, torch.Generator().manual_seed(5))
    >>> task.score(task.oracle(example.inputs), example)
    1.0
    >>> print(task.told(task.tell(1, torch.Generator().manual_seed(5))))
    anna went to the kitchen.
    dev went to the attic.
    carla went to the office.
    carla went to the attic.  (2)
    carla took the book.  (1)
    dev went to the cellar.
    dev took the apple.
    where is the book? attic
    """

    facts: int = 1
    people: int = 4
    places: int = 6
    things: int = 3
    sentences: tuple[int, int] = (6, 12)

    def __post_init__(self) -> None:
        for name, value, most in (
            ("facts", self.facts, 3),
            ("people", self.people, len(PEOPLE)),
            ("places", self.places, len(PLACES)),
            ("things", self.things, len(THINGS)),
        ):
            least = {"facts": 1, "people": 2, "places": 3, "things": 1}[name]
            check_least("Stories", name, value, least)
            if value > most:
                raise RegardError(f"Stories: {name} is {value}, wanted at most {most}")
        check_range("Stories", "sentences", self.sentences, self.facts + 2)

    @property
    def inputs(self) -> Symbols:
        """Words; a sentence ends with ".", the question with "?"."""
        return Symbols(len(WORDS))

    @property
    def answers(self) -> Symbols:
        """A word, though only places are right."""
        return Symbols(len(WORDS))

    @property
    def chance(self) -> float:
        """Of who guesses among the places."""
        return 1.0 / self.places

    def tell(self, batch: int, generator: torch.Generator) -> Story:
        """``batch`` stories, each as long as it happens to be, with their supporting facts marked."""
        check_least("Stories", "batch", batch, 1)
        return _as_tensors([self._one(one_of(self.sentences, generator), generator) for _ in range(batch)])

    def alike(self, batch: int, generator: torch.Generator) -> Example:
        """Stories of as many sentences, word by word; the answer is asked at the question's end."""
        n = one_of(self.sentences, generator)
        story = _as_tensors([self._one(n, generator) for _ in range(batch)])
        sentences = torch.zeros(batch, n, STEPS, dtype=torch.long)
        sentences[..., : story.sentences.shape[-1]] = story.sentences
        ends = (sentences != 0).sum(-1, keepdim=True)
        sentences.scatter_(-1, ends, NUMBER["."])
        mark = torch.full((batch, 1), NUMBER["?"])
        inputs = torch.cat([sentences.flatten(1), story.question, mark], 1)
        asked = self.asked(inputs)
        return Example(inputs, asked * story.answer[:, None], asked, torch.ones_like(asked))

    def oracle(self, inputs: Tensor) -> Tensor:
        """What a simulation of the story says, at the step of the question mark."""
        answers = torch.zeros_like(inputs)
        for row, found in zip(inputs, answers, strict=True):
            words = [WORDS[number] for number in row.tolist()]
            at = words.index("?")
            found[at] = NUMBER[simulated([word for word in words[:at] if word])]
        return answers

    def asked(self, inputs: Tensor) -> Tensor:
        """Where streams of words (B, L) ask for the answer: booleans (B, L), at the question mark."""
        return inputs == NUMBER["?"]

    def heard(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Streams of words as sentences (B, S, J) and questions (B, Q), without their marks: what a reader is given."""
        length = len(_question(self._questions()[0]))
        ends = self.asked(inputs).byte().argmax(-1, keepdim=True)
        question = inputs.gather(1, ends - length + torch.arange(length, device=inputs.device))
        steps = torch.arange(inputs.shape[1], device=inputs.device)
        told = torch.where((steps < ends - length) & (inputs != NUMBER["."]), inputs, 0)
        longest = int((ends.max() - length) // STEPS)
        return told[:, : longest * STEPS].unflatten(1, (longest, STEPS))[..., :-1], question

    def supports(self, inputs: Tensor) -> Tensor:
        """Which sentences give the answer to streams of words, as in :class:`Story`: what a supervisor tells."""
        sentences, questions = (x.tolist() for x in self.heard(inputs))
        found = []
        for told, question in zip(sentences, questions, strict=True):
            events = [heard([WORDS[word] for word in words if word]) for words in told if words[0]]
            asked = tuple(WORDS[word] for word in question if WORDS[word] not in OTHERS)
            support = supported(events, asked)
            if support is None:
                raise RegardError(f"inputs: nothing answers {' '.join(asked)!r}, wanted stories of this task")
            found.append(support[0])
        return torch.tensor(found, device=inputs.device)

    def told(self, story: Story, row: int = 0) -> str:
        """One of the stories as text, its supporting facts numbered in the order in which they are needed."""
        order = {place: n for n, place in enumerate(story.support[row].tolist(), start=1)}
        lines = []
        for place, sentence in enumerate(story.sentences[row][story.valid[row]].tolist()):
            mark = f"  ({order[place]})" if place in order else ""
            lines.append(" ".join(WORDS[word] for word in sentence if word) + "." + mark)
        asked = " ".join(WORDS[word] for word in story.question[row].tolist() if word)
        return "\n".join([*lines, f"{asked}? {WORDS[int(story.answer[row])]}"])

    def _one(self, length: int, generator: torch.Generator) -> _Told:
        while True:  # a story that leaves nothing to ask is told anew
            drawn = torch.rand(length, 3, generator=generator).tolist()
            events = happening(drawn, self.people, self.places, self.things if self.facts > 1 else 0)
            known = [
                (asked, support, answer)
                for asked in self._questions()
                if (found := supported(events, asked)) is not None
                for support, answer in [found]
                if length - 1 not in support
            ]
            if known:
                asked, support, answer = known[int(torch.randint(len(known), (), generator=generator))]
                return _Told(events, asked, answer, support)

    def _questions(self) -> list[tuple[str, ...]]:
        """Everything that can be asked: (person), (thing), or (thing, place)."""
        if self.facts == 1:
            return [(who,) for who in PEOPLE[: self.people]]
        things = [(thing,) for thing in THINGS[: self.things]]
        if self.facts == 2:
            return list(things)
        return [(thing, place) for (thing,) in things for place in PLACES[: self.places]]


class _Told(NamedTuple):
    events: list[Event]
    asked: tuple[str, ...]
    answer: str
    support: tuple[int, ...]


def _as_tensors(told: list[_Told]) -> Story:
    longest = max(len(one.events) for one in told)
    blank: list[str] = []
    sentences = [[event.words for event in one.events] + [blank] * (longest - len(one.events)) for one in told]
    flat = _padded([[NUMBER[word] for word in words] for row in sentences for words in row])
    questions = [_question(one.asked) for one in told]
    return Story(
        flat.view(len(told), longest, -1),
        _padded([[NUMBER[word] for word in words] for words in questions]),
        torch.tensor([NUMBER[one.answer] for one in told]),
        torch.tensor([one.support for one in told]),
    )


def _question(asked: tuple[str, ...]) -> list[str]:
    if asked[0] in PEOPLE:
        return ["where", "is", asked[0]]
    if len(asked) == 1:
        return ["where", "is", "the", asked[0]]
    return ["where", "was", "the", asked[0], "before", "the", asked[1]]


def _padded(rows: list[list[int]]) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [0] * (width - len(row)) for row in rows])
