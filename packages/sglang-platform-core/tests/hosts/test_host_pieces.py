"""The host half of a piecewise backend, against the words that each release has for it."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sglang_platform.core.graph.piecewise import PiecewiseBackend
from sglang_platform.core.sglang import parts
from sglang_platform.core.sglang.graphs import piecewise
from sglang_platform.core.sglang.versions import facts_for


def arguments(backend: str, *chosen: tuple[str, str]) -> SimpleNamespace:
    config = SimpleNamespace(prefill=SimpleNamespace(backend=backend), decode=SimpleNamespace(backend="full"))
    return SimpleNamespace(cuda_graph_config=config, _cuda_graph_config_locked=set(chosen))


def test_arguments_that_are_not_settled_yet_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piecewise, "facts", lambda: facts_for("0.5.18"))
    server_args = SimpleNamespace()
    piecewise.only_on_request(server_args)
    assert vars(server_args) == {}


@pytest.mark.parametrize(
    ("version", "backend", "chosen", "left"),
    [
        ("0.5.14", "tc_piecewise", False, "disabled"),
        ("0.5.21", "tc_piecewise", False, "disabled"),
        ("0.5.20", "tc_piecewise", True, "tc_piecewise"),
        ("0.5.20", "breakable", False, "breakable"),
        ("0.5.23", "breakable", False, "breakable"),
    ],
)
def test_pieces_are_served_on_request(
    monkeypatch: pytest.MonkeyPatch, version: str, backend: str, chosen: bool, left: str
) -> None:
    monkeypatch.setattr(piecewise, "facts", lambda: facts_for(version))
    server_args = arguments(backend, *([("prefill", "backend")] if chosen else []))
    before = server_args.cuda_graph_config
    piecewise.only_on_request(server_args)
    assert server_args.cuda_graph_config.prefill.backend == left
    assert server_args.cuda_graph_config.decode.backend == "full"
    assert before.prefill.backend == backend, "the host's rules hold the old object"


def test_before_0_5_14_the_host_has_an_argument_to_enforce_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piecewise, "facts", lambda: facts_for("0.5.13"))
    server_args = SimpleNamespace(disable_piecewise_cuda_graph=False)
    piecewise.only_on_request(server_args)
    assert server_args.disable_piecewise_cuda_graph is True


@pytest.mark.parametrize("version", ["0.5.11", "0.5.20"])
def test_a_piece_is_captured_when_and_where_the_host_says(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    host, saved = {"compiling": True, "stream": None}, []
    module, compiling = facts_for(version).compile_phase.split(":")
    phase = ModuleType(module)
    setattr(phase, compiling, lambda: host["compiling"])
    phase.get_pcg_capture_stream = lambda: host["stream"]  # type: ignore[attr-defined]
    for name in (module, *(module.rsplit(".", n)[0] for n in range(1, module.count(".") + 1))):
        monkeypatch.setitem(sys.modules, name, phase if name == module else ModuleType(name))
    monkeypatch.setattr(piecewise, "facts", lambda: facts_for(version))

    class Piece(PiecewiseBackend):
        streams: list[Any] = []

        def record(self, run: Any) -> Any:
            self.streams.append(self.stream)  # type: ignore[attr-defined]
            return SimpleNamespace(replay=lambda: None), run()

    compiler = SimpleNamespace(compiler_manager=SimpleNamespace(save_to_file=lambda: saved.append(1)))
    config = SimpleNamespace(get_capture_sizes=lambda: [4])
    piece = parts.rebase_piecewise_backend(Piece, None)(
        None, config, {}, None, 1, 2, [0], lambda n: n, compiler
    )
    assert isinstance(piece, Piece)
    piece(4), piece(4), piece(4)
    host.update(compiling=False)
    piece(4), piece(4)
    assert piece.captured == {}, "while it serves there is no stream"
    host.update(stream="the host's stream")
    piece(4), piece(4), piece(4)
    assert list(piece.captured) == [4]
    assert Piece.streams == ["the host's stream"]
    assert saved == [1]


def test_a_class_written_for_the_host_is_handed_on() -> None:
    class Own:
        pass

    assert parts.rebase_piecewise_backend(Own, None) is Own
