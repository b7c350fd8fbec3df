"""What an error tells a vendor to correct: always in the vendor's own code, never in core's or SGLang's."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sglang_platform.core.contract.source import place_of
from sglang_platform.core.correction import class_of_plugin, correction, is_plugins, place_in_plugin
from sglang_platform.core.errors import ContractError, explain
from sglang_platform.core.memory.paged import PagedTokenToKVPoolAllocator

FOREIGN = ("site-packages", "sglang-platform-core/src", "/conformance/src")

BOARD = """
import functools
import json

import torch

import library_of_board
from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.memory.paged import PagedTokenToKVPoolAllocator
from sglang_platform.core.portable.torch.device import TorchDeviceMixin


class Board(SRTPlatform, TorchDeviceMixin):
    device_name = device_type = "board"

    def get_device_total_memory(self, device_id=0):
        return json.loads("{")  # raises in Python's library

    def get_available_memory(self, device_id=0):
        return torch.device("board2")  # raises in torch

    def empty_cache(self):
        super().empty_cache()  # raises in core's base

    def get_device_name(self, device_id=0):
        return library_of_board.name()  # raises in another package

    def init_backend(self):
        PagedTokenToKVPoolAllocator(1, 64, torch.int64, "cpu", None, False)  # core refuses what it is handed


class BoardAllocator(PagedTokenToKVPoolAllocator): ...


class Derived(Board): ...
"""


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("plugin")
    library = folder / "site-packages"
    library.mkdir()
    (library / "library_of_board.py").write_text("def name():\n    raise OSError('no driver')\n")
    (folder / "board_plugin.py").write_text(textwrap.dedent(BOARD))
    sys.path[:0] = [str(folder), str(library)]
    try:
        import board_plugin

        yield board_plugin
    finally:
        del sys.path[:2]
        for name in ("board_plugin", "library_of_board"):
            sys.modules.pop(name, None)


def raised(call: Callable[[], Any]) -> BaseException:
    with pytest.raises(BaseException) as caught:
        call()
    error = caught.value
    # The test's own frames are no plugin's.
    while error.__traceback__ is not None and error.__traceback__.tb_frame.f_code.co_filename == __file__:
        error.__traceback__ = error.__traceback__.tb_next
    return error


def line_of(text: str) -> int:
    return (
        textwrap.dedent(BOARD).splitlines().index(next(one for one in BOARD.splitlines() if text in one)) + 1
    )


CASES = {
    "inherited, raises below torch.get_device_module": (
        lambda board: board.Board().get_device_uuid(),
        "override get_device_uuid() in board_plugin:Board (",
        "which inherits TorchDeviceMixin's; it was called with device_id=0",
    ),
    "inherited, through a private method of core's": (
        lambda board: board.Board().get_device_capability(1),
        "override get_device_capability() in board_plugin:Board (",
        "device_id=1",
    ),
    "inherited by a derived class": (
        lambda board: board.Derived().set_device("board:0"),
        "override set_device() in board_plugin:Derived (",
        "which inherits TorchDeviceMixin's",
    ),
    "an inherited method that the contract leaves to the vendor": (
        lambda board: board.Board().get_default_attention_backend(),
        "override get_default_attention_backend() in board_plugin:Board (",
        "SRTPlatform's",
    ),
    "an inherited method of a part": (
        lambda board: board.BoardAllocator(128, 64, None, "cpu", None, False).alloc(3),
        "override alloc() in board_plugin:BoardAllocator (",
        "PagedTokenToKVPoolAllocator's; it was called with need_size=3",
    ),
    "own code, raises in Python's library": (
        lambda board: board.Board().get_device_total_memory(),
        "correct what raises in get_device_total_memory() at ",
        f"board_plugin.py:{line_of('json.loads')}",
    ),
    "own code, raises in torch": (
        lambda board: board.Board().get_available_memory(),
        "correct what raises in get_available_memory() at ",
        f"board_plugin.py:{line_of('board2')}",
    ),
    "own code, raises in a library of another package": (
        lambda board: board.Board().get_device_name(),
        "correct what raises in get_device_name() at ",
        f"board_plugin.py:{line_of('library_of_board.name')}",
    ),
    "an override that calls super()": (
        lambda board: board.Board().empty_cache(),
        "correct what empty_cache() at ",
        "hands to empty_cache()",
    ),
    "own code that hands core what it refuses": (
        lambda board: board.Board().init_backend(),
        "correct what init_backend() at ",
        "hands to __init__()",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_correction_is_in_the_plugin(case: str, board: ModuleType) -> None:
    call, *words = CASES[case]
    text = correction(raised(lambda: call(board)), board.Board)
    assert text is not None
    assert [word for word in words if word not in text] == [], text
    assert not any(path in text for path in FOREIGN), text


def test_core_called_by_itself_names_the_platforms_class(board: ModuleType) -> None:
    error = raised(lambda: PagedTokenToKVPoolAllocator(1, 64, None, "cpu", None, False))  # type: ignore[arg-type]
    text = correction(error, board.Board)
    assert text is not None
    assert text.startswith("define or correct what the message names in board_plugin:Board (")
    assert correction(error) is None
    assert correction(error, PagedTokenToKVPoolAllocator) is None


def test_the_place_in_an_explanation_is_the_plugins(board: ModuleType) -> None:
    for call, line in (
        (lambda: board.Board().get_available_memory(), "board2"),
        (lambda: board.Board().empty_cache(), "super().empty_cache"),
    ):
        error = raised(call)
        assert f"board_plugin.py:{line_of(line)}" in explain(error)
        assert place_in_plugin(error, board.Board) is not None
        assert not any(path in explain(error) for path in FOREIGN)


def test_a_contract_error_points_at_the_class_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a function of core's, and of a class that core's code makes."""
    (tmp_path / "board_wrong.py").write_text(
        "from sglang_platform.core.contract.srt import SRTPlatform\n"
        "from sglang_platform.core.correction import is_plugins\n"
        "class Wrong(SRTPlatform):\n"
        "    get_nothing = is_plugins\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ContractError) as caught:
        import board_wrong  # type: ignore[import-not-found]  # noqa: F401
    assert "board_wrong.py:" in str(caught.value)
    assert not any(path in str(caught.value) for path in FOREIGN)


class OfTheTest:
    borrowed = is_plugins

    def own(self) -> None: ...


def test_a_borrowed_function_is_placed_where_it_is_assigned() -> None:
    place = place_of(OfTheTest, "borrowed")
    assert place is not None
    assert place[0] == __file__
    assert Path(__file__).read_text().splitlines()[place[1] - 1].strip() == "borrowed = is_plugins"
    own = place_of(OfTheTest, "own")
    assert own is not None
    assert own[0] == __file__


@pytest.mark.parametrize(
    ("module", "whose"),
    [
        ("acme.platform", True),
        ("sglang_acme", True),
        ("sglang_platform.cuda.device", True),
        ("sglang_platform.example_oot", True),
        ("sglang_platform.conformance.reference.device", True),
        ("sglang_platform.core.memory.paged", False),
        ("sglang_platform.devtools.written", False),
        ("sglang_platform.conformance.worker", False),
        ("sglang.srt.server_args", False),
        ("torch._ops", False),
        ("json.decoder", False),
        ("", False),
    ],
)
def test_whose_module_it_is(module: str, whose: bool) -> None:
    assert is_plugins(module) is whose


def test_a_class_of_cores_is_no_plugins(board: ModuleType) -> None:
    assert class_of_plugin(PagedTokenToKVPoolAllocator) is None
    assert class_of_plugin(board.Derived) is board.Derived
