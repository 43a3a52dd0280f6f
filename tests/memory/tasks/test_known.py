"""Each task by itself: oracles on sequences written by hand, where things stand, and that nothing tells the answer."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.tasks import (
    TASKS,
    AssociativeRecall,
    Copy,
    GraphTraversal,
    Induction,
    MultiQueryRecall,
    Needle,
    PrioritySort,
    Regions,
    RepeatCopy,
    SelectiveCopy,
    Symbols,
)
from regard.memory.tasks.sizes import distinct


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(*lines: str) -> Tensor:
    """One row of inputs, a step a line."""
    return torch.tensor([[[float(x) for x in line.split()] for line in lines]])


def test_copy_by_hand() -> None:
    found = Copy(width=2).oracle(rows("1 0 0", "1 1 0", "0 0 1", "0 0 0", "0 0 0"))
    assert found[0].tolist() == [[0, 0], [0, 0], [0, 0], [1, 0], [1, 1]]


def test_repeat_copy_by_hand() -> None:
    found = RepeatCopy(width=1).oracle(rows("1 0 0", "0 0 0", "0 1 .2", *["0 0 0"] * 5))
    assert found[0].tolist() == [[0, 0], [0, 0], [0, 0], [1, 0], [0, 0], [1, 0], [0, 0], [0, 1]]


def test_associative_recall_by_hand() -> None:
    lines = [
        "0 0 1 0",
        "1 0 0 0",
        "0 0 1 0",
        "1 1 0 0",
        "0 0 1 0",
        "0 1 0 0",
        "0 0 0 1",
        "1 1 0 0",
        "0 0 0 1",
        "0 0 0 0",
    ]
    found = AssociativeRecall(width=2, vectors=1, items=(3, 3)).oracle(rows(*lines))
    assert found[0].tolist() == [[0, 0]] * 9 + [[0, 1]]


def test_priority_sort_by_hand() -> None:
    found = PrioritySort(width=2, counts=(3, 3), kept=2).oracle(
        rows("1 0 -.5 0", "1 1 .25 0", "0 1 .75 0", "0 0 0 1", "0 0 0 0", "0 0 0 0")
    )
    assert found[0].tolist() == [[0, 0]] * 4 + [[0, 1], [1, 1]]


def test_symbols_by_hand() -> None:
    assert MultiQueryRecall(pairs=(2, 2), keys=3, values=4).oracle(
        torch.tensor([[2, 7, 3, 4, 3, 0, 2, 0]])
    ).tolist() == [[0, 0, 0, 0, 4, 0, 7, 0]]
    assert Induction().oracle(torch.tensor([[5, 1, 3, 3, 1, 0]])).tolist() == [[0, 0, 0, 0, 3, 0]]
    assert SelectiveCopy().oracle(torch.tensor([[0, 5, 0, 3, 1, 1]])).tolist() == [[0, 0, 0, 0, 5, 3]]
    assert Needle(keys=2, values=3, chaff=1, decoys=1).oracle(torch.tensor([[6, 2, 5, 1, 3, 6, 2, 0]])).tolist() == [
        [0, 0, 0, 0, 0, 0, 5, 0]
    ]


def test_graph_by_hand() -> None:
    """Nodes a, b; a –x→ b, b –y→ a, b –x→ b: from b by y is a, then by x is b."""
    found = GraphTraversal(nodes=(2, 2), degree=1, labels=2).oracle(
        rows("0 1  1 0  0 1 0", "1 0  1 0  0 1 0", "0 1  0 1  1 0 0", "0 1  0 1  0 0 1", "0 0  1 0  0 0 1")
    )
    assert found[0].tolist() == [0, 0, 0, 0, 1]


def test_regions_by_hand() -> None:
    """Colours a, b, c; shapes round, square. a is round with b's flag, c is square with a's, b is square with c's."""
    seen = ["1 0 0  1 0  0 1 0  0 0", "0 0 1  0 1  1 0 0  0 0", "0 1 0  0 1  0 0 1  0 0"]
    for question, named, asked, shape in (("1 0 0", 0, 2, 1), ("0 0 1", 1, 0, 0), ("0 1 0", 2, 1, 1)):
        for follow, at, answer in ((1, asked, shape), (0, named, int(named > 0))):
            inputs = rows(*seen, f"{question}  0 0  0 0 0  1 {follow}")
            task = Regions(regions=(3, 3), colours=3, shapes=2)
            assert task.oracle(inputs)[0].tolist() == [0, 0, 0, answer]
            assert task.chain(inputs).tolist() == [[named, at]]


@pytest.mark.parametrize("name", list(TASKS))
def test_the_question_does_not_hold_the_answer(name: str) -> None:
    """From the first question on, an input never shows what is asked: no bits, no value, no node but the start."""
    task = TASKS[name]()
    example = task.draw(200, generator())
    first = int(example.asked[0].float().argmax())
    late = example.inputs[:, first:]
    if isinstance(task, GraphTraversal):
        N = task.nodes[1]
        assert float(late[..., -N - 1 : -1].abs().sum()) == 0
        assert float(late[:, 1:, :N].abs().sum()) == 0
        start = late[:, 0, :N].argmax(-1)
        assert not bool((start == example.targets[:, first]).any())
    elif isinstance(task, Regions):
        assert float(late[..., task.colours : -2].abs().sum()) == 0
    elif isinstance(task.inputs, Symbols):
        assert not set(late.unique().tolist()) & set(example.targets[example.asked].tolist())
    else:
        assert float(late.abs().sum()) == 0


def near(found: float, wanted: float, count: int) -> bool:
    return abs(found - wanted) < 4.5 * math.sqrt(wanted * (1 - wanted) / count)


def test_no_pair_of_multiquery_is_likelier_asked_than_another() -> None:
    """Answering always with the value of pair i, the last one included, is right 1/n of the time, and by luck."""
    task = MultiQueryRecall(pairs=(5, 5), keys=11, values=7)
    example = task.draw(2000, generator())
    B, n = 2000, 5
    values = example.inputs[:, 1 : 2 * n : 2]
    first = example.targets.gather(1, example.asked.float().argmax(1, keepdim=True))[:, 0]
    for i in range(n):
        assert near(float((values[:, i] == first).float().mean()), 1 / n + (1 - 1 / n) / task.values, B)


def test_multiquery_asks_by_the_power_law() -> None:
    """Of one question in 3 steps: P(step t) ∝ t^(power − 1), exactly."""
    for power in (0.01, 1.0):
        example = MultiQueryRecall(pairs=(1, 1), keys=2, values=2, spread=3, power=power).draw(4000, generator())
        likely = torch.tensor([t ** (power - 1) for t in (1, 2, 3)])
        for t, wanted in enumerate((likely / likely.sum()).tolist()):
            assert near(float(example.asked[:, 2 + t].float().mean()), wanted, 4000)


def test_selective_copy_lies_anywhere_alike() -> None:
    example = SelectiveCopy(places=(7, 7), items=(3, 3), symbols=5).draw(3000, generator())
    for place in range(7):
        assert near(float((example.inputs[:, place] > 0).float().mean()), 3 / 7, 3000)


def test_induction_stands_anywhere_alike() -> None:
    example = Induction(lengths=(5, 5), symbols=7).draw(3000, generator())
    for place in range(5):
        assert near(float((example.inputs[:, place] == 1).float().mean()), 1 / 5, 3000)
    last = (example.inputs[:, -2] == example.targets[:, -1]).float().mean()
    assert near(float(last), 1 / 5 + 4 / 5 / 7, 3000), "what came last is as good as any"


@pytest.mark.parametrize("depth", [0.0, 0.4, 1.0])
def test_a_needle_stands_at_its_depth(depth: float) -> None:
    task = Needle(lengths=(17, 17), depths=(depth, depth), decoys=0)
    example = task.draw(5, generator())
    key = example.inputs[:, -1:]
    at = (example.inputs == key).float().argmax(1)
    assert at.tolist() == [round(depth * 17)] * 5
    assert bool((example.inputs.gather(1, at[:, None] + 1) == example.targets[:, -1:]).all())


def test_a_needle_is_among_decoys() -> None:
    """The first pair's value, or the last's, is right as often as of any of 4 pairs, near enough to uniform depth."""
    task = Needle(lengths=(40, 40), decoys=3, values=16)
    example = task.draw(2000, generator())
    is_value = (example.inputs > task.keys) & (example.inputs <= task.keys + task.values)
    assert is_value.sum(1).tolist() == [4] * 2000
    order = example.inputs[is_value].view(2000, 4)
    for i in range(4):
        right = float((order[:, i] == example.targets[:, -1]).float().mean())
        assert abs(right - (1 / 4 + 3 / 4 / 16)) < 0.05


def test_associative_recall_asks_any_item_alike() -> None:
    task = AssociativeRecall(items=(4, 4))
    example = task.draw(2000, generator())
    items = example.inputs[:, :16].view(2000, 4, 4, 8)[:, :, 1:, :6]
    answer = example.targets[example.asked].view(2000, 1, 3, 6)
    which = (items == answer).flatten(2).all(-1)
    assert which.sum(1).tolist() == [1] * 2000, "items are all different"
    assert float(which[:, 0].float().sum()) == 0, "the first follows none"
    for i in (1, 2, 3):
        assert near(float(which[:, i].float().mean()), 1 / 3, 2000)


def test_priorities_differ_and_fill_their_range() -> None:
    priority = PrioritySort().draw(200, generator()).inputs[:, :20, -2]
    assert bool((priority.sort(-1).values.diff(dim=-1) > 0).all())
    assert -1 <= float(priority.min()) < -0.99
    assert 0.99 < float(priority.max()) <= 1
    assert abs(float(priority.mean())) < 4.5 / math.sqrt(3 * 4000)


def test_a_flag_points_at_any_other_region_alike() -> None:
    """No two of a colour, no flag of one's own colour; asked for is any region but the named one, anywhere alike."""
    task = Regions(regions=(5, 5), colours=7, shapes=3)
    example = task.draw(3000, generator())
    regions = example.inputs[:, :-1]
    colour, flag = regions[..., :7].argmax(-1), regions[..., 10:17].argmax(-1)
    assert bool((colour.sort(-1).values.diff(dim=-1) > 0).all())
    assert not bool((colour == flag).any())
    assert bool((flag.unsqueeze(-1) == colour.unsqueeze(-2)).any(-1).all()), "a flag of a colour that is not there"
    named, asked = task.chain(example.inputs).unbind(-1)
    for place in range(5):
        assert near(float((named == place).float().mean()), 1 / 5, 3000)
        assert near(float((asked == place).float().mean()), 1 / 5, 3000)
    for step in range(1, 5):
        assert near(float(((named + step) % 5 == asked).float().mean()), 1 / 4, 3000)
    shape = regions[torch.arange(3000), named, 7:10].argmax(-1)
    assert near(float((shape == example.targets[:, -1]).float().mean()), 1 / 3, 3000), (
        "the named object's tells nothing"
    )


def test_a_share_of_the_questions_follows_a_flag() -> None:
    for share in (0.0, 0.3, 1.0):
        task = Regions(chained=share)
        inputs = task.draw(2000, generator()).inputs
        assert abs(float(inputs[:, -1, -1].mean()) - share) <= 4.5 * math.sqrt(share * (1 - share) / 2000)
        named, asked = task.chain(inputs).unbind(-1)
        assert torch.equal(named != asked, inputs[:, -1, -1] == 1)


def test_a_graph_walks_its_own_edges() -> None:
    """Each node has its degree of edges, of different labels, none to itself; every question's edge is there."""
    task = GraphTraversal(nodes=(5, 5), degree=3, labels=4, steps=(6, 6))
    example = task.draw(50, generator())
    edges = example.inputs[:, :15]
    source, label, target = (x.argmax(-1) for x in (edges[..., :5], edges[..., 5:9], edges[..., 9:14]))
    assert not bool((source == target).any())
    for b in range(50):
        out = list(zip(source[b].tolist(), label[b].tolist(), strict=True))
        assert len(set(out)) == 15
        assert sorted(source[b].tolist()) == [node for node in range(5) for _ in range(3)]
    assert not torch.equal(source[0], source[0].sort().values), "edges come in no order"


def test_distinct_is_uniform_by_either_way() -> None:
    """Few kinds are shuffled, many are drawn until they differ: each first number as likely either way."""
    assert distinct(1000, 6, 6, generator()).sort(-1).values.tolist() == [list(range(6))] * 1000
    many = distinct(2000, 40, 5000, generator())
    assert bool((many.sort(-1).values.diff(dim=-1) > 0).all())
    assert near(float((many[:, 0] < 1000).float().mean()), 1 / 5, 2000)
    assert near(float((many[:, -1] < 1000).float().mean()), 1 / 5, 2000)


def test_a_repeat_is_told_alike_beyond_what_was_trained() -> None:
    for repeats in ((3, 3), (1, 20)):
        example = RepeatCopy(lengths=(2, 2), repeats=repeats).draw(1, generator())
        r = (int(example.asked.sum()) - 1) // 2
        assert float(example.inputs[0, 2, -1]) == pytest.approx(r / 10)


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: RepeatCopy(repeats=(0, 2)), r"RepeatCopy: repeats is \(0, 2\)"),
    (lambda: AssociativeRecall(items=(1, 3)), r"AssociativeRecall: items is \(1, 3\)"),
    (lambda: AssociativeRecall(width=1, vectors=1, items=(2, 3)), "up to 3 items of 1 bits"),
    (lambda: AssociativeRecall(width=21, vectors=3), "items of 63 bits"),
    (lambda: PrioritySort(counts=(3, 9), kept=4), r"PrioritySort: counts is \(3, 9\), wanted .* 4 ≤"),
    (lambda: MultiQueryRecall(pairs=(4, 9), keys=8), "MultiQueryRecall: keys is 8, wanted .* at least 9"),
    (lambda: MultiQueryRecall(power=0.0), "MultiQueryRecall: power is 0.0"),
    (lambda: Induction(symbols=1), "Induction: symbols is 1"),
    (lambda: SelectiveCopy(places=(3, 48)), r"SelectiveCopy: places is \(3, 48\)"),
    (lambda: Needle(depths=(0.5, 1.5)), r"Needle: depths is \(0.5, 1.5\)"),
    (lambda: Needle(decoys=16), "Needle: keys is 16, wanted a whole number of at least 17"),
    (lambda: Regions(regions=(2, 7)), "Regions: colours is 6 with up to 7 regions"),
    (lambda: Regions(regions=(1, 4)), r"Regions: regions is \(1, 4\)"),
    (lambda: Regions(shapes=1), "Regions: shapes is 1"),
    (lambda: Regions(chained=1.5), "Regions: chained is 1.5, wanted a share"),
    (lambda: GraphTraversal(degree=5, labels=4), "GraphTraversal: degree is 5 with 4 labels"),
    (lambda: GraphTraversal(nodes=(1, 4)), r"GraphTraversal: nodes is \(1, 4\)"),
]


@pytest.mark.parametrize(("make", "message"), BAD)
def test_bad_sizes_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        make()
