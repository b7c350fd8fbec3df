"""The picture of the rooms is that of the sources, and shows what the rules say: layers, and every arrow down."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from draw import PICTURE, arrows_between_rooms, picture
from import_graph import Graph, Import, our_graph
from layers import lay_out, needed_arrows


def test_the_picture_is_that_of_the_sources() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(our_graph()), (
        "draw it anew: python tests/architecture/draw.py"
    )


def _graph(*arrows: tuple[str, str]) -> Graph:
    prefix = "sglang_platform."
    return Graph(
        {}, tuple(Import(prefix + a, prefix + b, "module", Path(), 1, False) for a, b in arrows), (), ()
    )


def test_every_arrow_goes_down() -> None:
    graph = _graph(
        ("core.hooks.registry", "core.errors"),
        ("core.cli.app", "core.hooks.registry"),
        ("core.cli.list", "core.hooks.report"),
        ("core.cli.app", "core.errors"),
        ("core.hooks.registry", "core.hooks.report"),
        ("cuda.device", "core.contract.device"),
    )
    drawn = picture(graph)
    assert drawn == picture(graph)
    ElementTree.fromstring(drawn)
    curves = [re.findall(r"[-\d.]+", path) for path in re.findall(r'<path d="(M[^"]+)"', drawn)]
    curves = [curve for curve in curves if len(curve) > 6]
    assert len(curves) == 5 + 2, (
        "five distributions on core; cli -> hooks -> errors, which implies cli -> errors"
    )
    for numbers in curves:
        heights = [float(number) for number in numbers[1::2]]
        assert heights == sorted(heights)
    assert ("cli", "hooks") in arrows_between_rooms(graph.own)


def test_one_import_more_on_an_arrow_changes_nothing() -> None:
    arrow, beside = ("core.cli.app", "core.hooks.registry"), ("cuda.device", "core.contract.device")
    more = ("core.cli.list", "core.hooks.report"), ("cuda.platform", "core.contract.srt")
    assert picture(_graph(arrow, beside, *more)) == picture(_graph(arrow, beside))
    assert picture(_graph(arrow, beside, ("core.cli.app", "core.memory.mha"))) != picture(
        _graph(arrow, beside)
    )


def test_rooms_in_a_circle_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="rooms in a circle"):
        picture(
            _graph(("core.hooks.registry", "core.installed"), ("core.installed.files", "core.hooks.registry"))
        )


def test_places_do_not_overlap() -> None:
    arrows = {"top": {"a", "b", "c", "ground"}, "a": {"ground"}, "b": {"ground"}, "c": set(), "ground": set()}
    assert needed_arrows(arrows)["top"] == {"a", "b", "c"}
    drawing = lay_out(arrows, dict.fromkeys(arrows, 60.0), 400)
    assert drawing.places["top"][1] == 0
    assert drawing.arrows["top", "ground"][1][1] == 1, (
        "a long arrow has a point of its own in the layer it passes"
    )
    middle = sorted(drawing.places[name][0] for name in "ab")
    assert middle[1] - middle[0] >= 60
