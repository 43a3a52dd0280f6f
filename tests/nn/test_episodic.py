"""Memory networks as layers: what is tied to what, the whole of the paper in loops, and losses by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.episodic import Linear, bag_of_words
from regard.nn import Adjacent, EndToEndMemoryNetwork, LayerWise, MemoryNetwork

V, D, K = 11, 5, 3


def text() -> tuple[Tensor, Tensor]:
    """Three stories of four, two and no sentences, and questions of different lengths."""
    sentences = torch.randint(1, V, (3, 4, 3))
    sentences[0, 1, 2:], sentences[1, 0, 1:], sentences[1, 2:], sentences[2] = 0, 0, 0, 0
    question = torch.randint(1, V, (3, 2))
    question[1, 1] = 0
    return sentences, question


def encoded(words: list[int], table: Tensor) -> list[float]:
    """m = Σ_j l_j ∘ A x_j with l of section 4.1."""
    words = [word for word in words if word]
    J = len(words)
    out = [0.0] * D
    for j, word in enumerate(words, start=1):
        for k in range(1, D + 1):
            out[k - 1] += ((1 - j / J) - (k / D) * (1 - 2 * j / J)) * float(table[word, k - 1])
    return out


def by_the_paper(
    net: EndToEndMemoryNetwork, sentences: list[list[int]], question: list[int], soft: bool
) -> list[float]:
    """Sukhbaatar et al. 2015: adjacent, A^{k+1} = C^k, B = A^1, W^T = C^K; or layer-wise, with H."""
    E, T = net.words.detach(), None if net.times is None else net.times.detach()
    layers = isinstance(net.tying, LayerWise)
    u = encoded(question, E[:, 2] if layers else E[:, 0])
    told = [one for one in sentences if any(one)]
    for k in range(K):
        A, C = (0, 1) if layers else (k, k + 1)
        m, c = ([encoded(one, E[:, t]) for one in told] for t in (A, C))
        if T is not None:
            for vectors, t in ((m, A), (c, C)):
                for i, vector in enumerate(vectors):
                    for d in range(D):
                        vector[d] += float(T[len(told) - 1 - i, t, d])
        s = [sum(a * b for a, b in zip(u, one, strict=True)) for one in m]
        p = [math.exp(x) for x in s] if soft else s
        p = [x / sum(p) for x in p] if soft else p
        o = [sum(w * one[d] for w, one in zip(p, c, strict=True)) for d in range(D)]
        if layers:
            assert net.carry is not None
            u = [float(x) for x in net.carry.weight.detach() @ torch.tensor(u, dtype=torch.float64)]  # type: ignore[operator]
        u = [a + b for a, b in zip(u, o, strict=True)]
    W = E[:, 3] if layers else E[:, K]
    return [sum(float(W[v, d]) * u[d] for d in range(D)) for v in range(V)]


@pytest.mark.parametrize("tying", [Adjacent(), LayerWise()], ids=str)
@pytest.mark.parametrize("ages", [7, None])
@pytest.mark.parametrize("soft", [True, False])
def test_the_network_is_the_paper(tying: Adjacent | LayerWise, ages: int | None, soft: bool) -> None:
    torch.set_default_dtype(torch.float64)
    net = EndToEndMemoryNetwork(V, D, hops=K, ages=ages, tying=tying)
    for p in net.parameters():
        p.data.normal_()
    sentences, question = text()
    found = net(sentences, question, normalize=None if soft else Linear())
    for b in range(3):
        wanted = by_the_paper(net, sentences[b].tolist(), question[b].tolist(), soft)
        torch.testing.assert_close(found[b], torch.tensor(wanted), rtol=1e-10, atol=1e-10)


def test_what_is_tied() -> None:
    adjacent = EndToEndMemoryNetwork(V, D, hops=K, ages=7)
    assert sum(p.numel() for p in adjacent.parameters()) == (K + 1) * D * (V + 7)
    layers = EndToEndMemoryNetwork(V, D, hops=K, ages=7, tying=LayerWise())
    assert sum(p.numel() for p in layers.parameters()) == 4 * D * V + 2 * D * 7 + D * D
    assert EndToEndMemoryNetwork(V, D, ages=None).times is None


def test_padding_changes_nothing() -> None:
    net = EndToEndMemoryNetwork(V, D, ages=9)
    sentences, question = text()
    wider = torch.zeros(3, 7, 5, dtype=torch.long)
    wider[:, 2:6, :3] = sentences  # sentences that are not there, on both sides, and longer ones
    torch.testing.assert_close(net(wider, torch.nn.functional.pad(question, (0, 2))), net(sentences, question))


def test_time_is_what_tells_an_old_sentence_from_a_new_one() -> None:
    sentences, question = text()
    sentences, question = sentences[:1], question[:1]
    for ages, same in ((7, False), (None, True)):
        net = EndToEndMemoryNetwork(V, D, ages=ages)
        assert torch.allclose(net(sentences, question), net(sentences.flip(1), question), atol=1e-6) == same


def test_only_the_newest_are_kept_and_empty_memories_make_them_older() -> None:
    net = EndToEndMemoryNetwork(V, D, ages=2)
    sentences, question = text()
    torch.testing.assert_close(net(sentences[:1], question[:1]), net(sentences[:1, 2:], question[:1]))
    roomy = EndToEndMemoryNetwork(V, D, ages=50)
    plain = roomy(sentences, question)
    drawn = torch.stack([roomy(sentences, question, empty=0.5) for _ in range(5)])
    assert not torch.allclose(drawn[:, 0], plain[0])
    torch.testing.assert_close(drawn[:, 2], plain[2].expand(5, -1))  # who has no sentences has none that get older
    roomy(sentences, question, empty=0.9).sum().backward()  # ages past the table's end are its last


def test_words_in_a_bag_have_no_order() -> None:
    sentences, question = text()
    net = EndToEndMemoryNetwork(V, D, encode=bag_of_words)
    turned = sentences.clone()
    turned[0, 0] = sentences[0, 0].flip(0)
    torch.testing.assert_close(net(turned, question), net(sentences, question))


def test_each_hop_can_be_looked_at() -> None:
    net = EndToEndMemoryNetwork(V, D, hops=K)
    sentences, question = text()
    group = torch.zeros(3, 4, dtype=torch.bool)
    group[:, -1] = True
    found = net.recall(sentences, question, groups={"newest": group})
    assert len(found.hops) == K
    for hop in found.hops:
        assert hop.mass["newest"].shape == (3, 1, 1)
        assert 0 < float(hop.mass["newest"][0].detach()) < 1
        assert float(hop.mass["newest"][2].detach()) == 0


def test_the_ranking_loss_by_hand() -> None:
    """Sum over pairs of facts, in both orders, and over words, each as far as it is short of the margin."""
    torch.set_default_dtype(torch.float64)
    net = MemoryNetwork(V, 4, hops=2, margin=0.3)
    sentences, question = text()
    sentences, question = sentences[:2], question[:2]
    support, answer = torch.tensor([[2, 0], [1, 1]]), torch.tensor([4, 7])
    memory = net.memory()
    U = net.response.detach()
    total = 0.0
    for b in range(2):
        told = [one for one in sentences[b].tolist() if any(one)]

        def bag(words: list[int]) -> Tensor:
            return torch.tensor([float(words.count(v)) if v else 0.0 for v in range(V)])

        state = memory.write(memory.reset(1), torch.stack([bag(one) for one in told])[None])
        right, other, others = memory.preferences(state, bag(question[b].tolist())[None], support[b : b + 1])
        for k in range(2):
            for i in range(len(told)):
                if i != int(support[b, k]):
                    assert bool(others[0, k, i])
                    total += max(0.0, 0.3 - float(right[0, k, i].detach())) + max(
                        0.0, 0.3 + float(other[0, k, i].detach())
                    )
        x = U[:, :V] @ bag(question[b].tolist()) + U[:, V : 2 * V] @ sum(bag(told[int(i)]) for i in support[b])
        s = [float(x @ U[:, 2 * V + v]) for v in range(V)]
        total += sum(max(0.0, 0.3 - s[int(answer[b])] + s[v]) for v in range(V) if v != int(answer[b]))
        said = net(sentences[b : b + 1], question[b : b + 1])
        x = U[:, :V] @ bag(question[b].tolist()) + U[:, V : 2 * V] @ sum(bag(told[int(i)]) for i in said.support[0])
        assert int(said.word) == int((x @ U[:, 2 * V :]).argmax())
    torch.testing.assert_close(net.loss(sentences, question, support, answer).item(), total / 2)


def net() -> EndToEndMemoryNetwork:
    return EndToEndMemoryNetwork(V, D)


def words(*shape: int) -> Tensor:
    return torch.ones(*shape, dtype=torch.long)


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: EndToEndMemoryNetwork(0, D), "words is 0"),
    (lambda: EndToEndMemoryNetwork(V, D, ages=0), "ages is 0"),
    (lambda: EndToEndMemoryNetwork(V, D, hops=0), "hops is 0"),
    (lambda: net()(words(2, 3), words(2, 3)), "sentences are"),
    (lambda: net()(words(2, 3, 4), words(1, 3)), "sentences are"),
    (lambda: net()(words(2, 3, 4) * V, words(2, 3)), "wanted integers 0 to 10"),
    (lambda: net()(words(2, 3, 4).float(), words(2, 3)), "wanted integers"),
    (lambda: net()(words(2, 3, 4), words(2, 3), empty=1.5), "share is 1.5"),
    (lambda: MemoryNetwork(V, margin=0.0), "margin"),
    (lambda: MemoryNetwork(V, hops=0).memory(), "hops is 0"),
    (lambda: MemoryNetwork(V)(words(2, 3), words(2, 3)), "sentences are"),
    (lambda: MemoryNetwork(V)(-words(2, 3, 4), words(2, 3)), "wanted integers 0 to 10"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[f"{n}: {message}" for n, (_, message) in enumerate(BAD)])
def test_bad_input_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        call()
