"""A model is run on a text; what its heads looked at is a table, findings, maps, a page and a server."""

from __future__ import annotations

import base64
import json
import re
import threading
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import regard
from regard.bridge.load import Loaded
from regard.doctor.inspect import looking
from regard.doctor.inspect.looking import Inspection, kept, look, mapped, sides
from regard.doctor.inspect.page import described, document
from regard.doctor.inspect.serve import server
from tests.bridge.architectures import make

L = 23
TOKENS = torch.randint(3, 97, (1, L), generator=torch.Generator().manual_seed(3))
WORDS = tuple(f"w{n}</script>" if n == 5 else f" w{n}" for n in range(L))


def loaded(name: str = "llama", **more: Any) -> Loaded:
    return Loaded(make(name, **more), {"input_ids": TOKENS}, name, strings=(WORDS,))


@pytest.fixture(scope="module")
def seen() -> Inspection:
    found = look(loaded())
    return replace(found, charts=mapped(loaded(), found, sides(found)))


def test_every_head_is_seen_and_its_map_is_its_weights(seen: Inspection) -> None:
    assert len(seen.heads) == len(seen.charts) == 8
    assert seen.length == L
    with torch.no_grad():
        weights = make("llama")(TOKENS, output_attentions=True).attentions
    for chart in seen.charts:
        layer = int(chart.head.module.split(".")[2])
        wanted = weights[layer][0, chart.head.head]
        assert (chart.map.share - wanted).abs().max() < 1e-5
        assert abs(float(chart.map.largest.amax(-1).mean()) - chart.head.peak) < 1e-5


@pytest.mark.parametrize("name", ["gpt2", "bert", "gpt-oss, learned sink", "gemma2, cap and window", "bart"])
def test_maps_of_other_kinds_of_attention(name: str) -> None:
    one = loaded(name)
    if name == "bart":
        one = replace(one, batch={"input_ids": TOKENS, "decoder_input_ids": TOKENS[:, :7]})
    found = look(one)
    charts = mapped(one, found, sides(found, 64))
    assert not found.untested
    assert len(charts) == len(found.heads)
    with torch.no_grad():
        out = one.model(**one.batch, output_attentions=True)  # type: ignore[arg-type]
    layers = (
        (
            *out.encoder_attentions,
            *(x for pair in zip(out.decoder_attentions, out.cross_attentions, strict=True) for x in pair),
        )
        if name == "bart"
        else out.attentions
    )
    wanted = torch.cat([w[0].flatten() for w in layers])
    drawn = torch.cat([chart.map.share.flatten() for chart in charts])
    assert (drawn.sort().values - wanted.sort().values).abs().max() < 1e-5


def test_from_many_tokens_on_the_model_needs_no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "LONG", 10)
    one = loaded()
    found = look(one)
    model: Any = one.model
    assert model.config._attn_implementation == "regard"
    assert "regard's engines" in found.notes[0]
    assert look(loaded("bloom")).notes == ()  # attention of its own: it stays as it is


def test_a_logit_for_every_token_and_a_cache_are_not_made() -> None:
    one = loaded()
    asked: list[dict[str, Any]] = []
    one.model.register_forward_pre_hook(lambda _, args, words: asked.append(words), with_kwargs=True)
    look(one)
    assert asked[0]["logits_to_keep"] == 1
    assert asked[0]["use_cache"] is False


def test_a_model_without_attention_or_that_fails_is_said() -> None:
    with pytest.raises(regard.RegardError, match="no attention was seen"):
        look(Loaded(nn.Linear(3, 3), (torch.ones(1, 3),), "plain"))
    with pytest.raises(regard.RegardError, match="cannot be run on this text: mat1") as raised:
        look(Loaded(nn.Linear(3, 3), (torch.ones(1, 5),), "plain"))
    assert "\n" not in str(raised.value)


def test_the_worst_heads_have_the_finest_maps(seen: Inspection) -> None:
    assert set(sides(seen, 17).values()) == {17}
    many = replace(seen, heads=type(seen.heads)(seen.heads.rows * 30, seen.heads.groups))
    assert set(sides(many).values()) <= {512, 128}


def unpacked(about: dict[str, Any]) -> np.ndarray:
    codes = np.frombuffer(zlib.decompress(base64.b64decode(about["planes"])), "<u2").reshape(4, about["rows"], -1)
    return np.where(codes == 0, 0.0, 10.0 ** (-9 * (1 - (codes.astype(float) - 1) / 4094)))


def test_packed_numbers_are_right_to_half_a_per_cent(seen: Inspection) -> None:
    for chart in seen.charts:
        for plane, found in zip(chart.map.planes, unpacked(described(chart.map)), strict=True):
            wanted = plane.double().numpy()
            big = wanted >= 1e-9
            assert (np.abs(found - wanted)[big] <= 0.005 * wanted[big]).all()
            assert (found[~big] == 0).all()


def test_the_page_is_one_file_that_asks_nobody(seen: Inspection) -> None:
    page = document(seen)
    assert not re.search(r"(src|href)\s*=|https?://|@import|url\(", page.split("<script>")[0])
    assert "connect-src 'none'" in page
    assert page.count("</script>") == page.count("<script")
    held = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert held is not None
    data = json.loads(held.group(1))
    assert data["tokens"][5] == "w5</script>"
    assert len(data["maps"]) == page.count('id="map-') == 8
    assert page.count("data-map=") == page.count('<option value="0">') + 7 == 8
    for needed in (
        'lang="en"',
        'tabindex="0"',
        'role="status"',
        "aria-live",
        "prefers-color-scheme:dark",
        "<noscript>",
    ):
        assert needed in page


@pytest.fixture
def served(seen: Inspection) -> Iterator[str]:
    sources = dict(enumerate(kept(loaded()).values()))
    with server(document(replace(seen, charts=()), {n: s.size for n, s in sources.items()}), sources) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/"
        running.shutdown()
        thread.join()


def test_the_server_draws_any_part_of_any_head(served: str) -> None:
    with urllib.request.urlopen(served) as answer:
        page = answer.read().decode()
    assert "connect-src 'self'" in page
    assert page.count("data-map=") == 8
    where = f"{served}map?head=3&top=4&bottom=19&left=2&right=21&cells=512"
    with urllib.request.urlopen(where) as answer:
        about = json.load(answer)
    assert (about["rows"], about["columns"], about["height"], about["width"]) == (15, 19, 1, 1)
    with torch.no_grad():
        wanted = make("llama")(TOKENS, output_attentions=True).attentions[0][0, 3, 4:19, 2:21]
    assert np.abs(unpacked(about)[0] - wanted.numpy()).max() < 0.005


@pytest.mark.parametrize(
    ("path", "host", "status", "says"),
    [
        ("map?head=99&top=0&bottom=1&left=0&right=1&cells=1", None, 400, "head: found '99'"),
        (
            "map?head=0&top=9&bottom=9&left=0&right=1&cells=1",
            None,
            400,
            "bottom: found '9', wanted a whole number from 10",
        ),
        ("map?head=0&top=0&bottom=23&left=0&right=23&cells=100000", None, 400, "cells: found '100000'"),
        ("map", None, 400, "head: found ''"),
        ("elsewhere", None, 404, "there is / and /map"),
        ("", "evil.example:80", 403, "127.0.0.1 only"),
    ],
)
def test_the_server_refuses_what_is_not_there_and_who_is_not_here(
    served: str, path: str, host: str | None, status: int, says: str
) -> None:
    asked = urllib.request.Request(served + path, headers={} if host is None else {"Host": host})
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(asked)
    assert raised.value.code == status
    assert says in raised.value.read().decode()
    raised.value.close()


def test_a_port_that_is_taken_is_said(served: str) -> None:
    port = int(served.rstrip("/").rpartition(":")[2])
    with pytest.raises(regard.RegardError, match="--port: cannot listen"):
        server("", {}, port)
