"""The names that SGLang knows for an argument are read from its source, and from what plugins registered."""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sglang_platform.conformance import host_names
from sglang_platform.conformance.check import CheckFailed
from sglang_platform.conformance.checks.factories import expect_known
from sglang_platform.conformance.host_names import known_names, names_like

_SOURCES = {
    "sglang.srt.server_args": """
def add_cli_args(parser):
    sampling = set(SAMPLING_BACKEND_CHOICES)
    parser.add_argument("--sampling-backend", choices=sampling)
    parser.add_argument("--old-style", choices=["one", "two"])
    parser.add_argument("--computed", choices=names())
    parser.add_argument("--port", type=int)
""",
    "sglang.srt.arg_groups.choices": """
BUILT_IN = frozenset({"pytorch", "flashinfer"})
SAMPLING_BACKEND_CHOICES = set(BUILT_IN)
GRAMMAR_BACKEND_CHOICES = ["xgrammar", "none"]
""",
    "sglang.srt.arg_groups.fields.exec_": """
class Fields:
    grammar_backend: A[Optional[str], Arg(help="", choices=GRAMMAR_BACKEND_CHOICES)] = None
    joined: A[str, Arg(choices=GRAMMAR_BACKEND_CHOICES + ["more"])] = "none"
    runner: A[str, Arg(choices=Backend.ALL)] = "none"
    size: A[int, Arg(choices=[16, 32])] = 16
    lora_backend: A[str, Arg(choices=["triton"])] = "triton"
    free: A[str, Arg(help="any")] = ""
""",
    "sglang.srt.layers.attention.attention_registry": """
@register_attention_backend("triton")
def create(): ...
""",
    "sglang.srt.lora.backend.lora_registry": """
@register_lora_backend("torch_native")
def create(): ...
""",
}


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An SGLang of five modules."""

    class Environment:
        def module(self, name: str) -> Any:
            module = ModuleType(name)
            module.tree = ast.parse(_SOURCES[name]) if name in _SOURCES else ast.Module([], [])  # type: ignore[attr-defined]
            return module

        def children(self, package: str) -> list[str]:
            return ["exec_"]

    monkeypatch.setattr(host_names, "Environment", Environment)
    for name in [one for one in sys.modules if one.startswith("sglang.srt.")]:
        monkeypatch.delitem(sys.modules, name)
    host_names._sources.cache_clear()
    host_names._registered.cache_clear()
    yield
    host_names._sources.cache_clear()
    host_names._registered.cache_clear()


@pytest.mark.parametrize(
    ("argument", "names"),
    [
        ("sampling_backend", {"pytorch", "flashinfer"}),
        ("grammar_backend", {"xgrammar", "none"}),
        ("joined", {"xgrammar", "none", "more"}),
        ("old_style", {"one", "two"}),
        ("lora_backend", {"triton", "torch_native"}),
        ("computed", set()),
        ("runner", set()),
        ("size", set()),
        ("free", set()),
        ("port", set()),
        ("no_such_argument", set()),
    ],
)
def test_choices_and_registries_are_read(argument: str, names: set[str]) -> None:
    assert known_names(argument) == names


def test_what_a_plugin_registered_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = ModuleType("sglang.srt.lora.backend.lora_registry")
    registry.LORA_SUPPORTED_BACKENDS = {"mine": object}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, registry.__name__, registry)
    choices = ModuleType("sglang.srt.arg_groups.choices")
    choices.GRAMMAR_BACKEND_CHOICES = ["xgrammar", "theirs"]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, choices.__name__, choices)
    assert "mine" in known_names("lora_backend")
    assert "theirs" in known_names("grammar_backend")


@pytest.mark.parametrize(
    ("argument", "registered", "taken"),
    [
        ("attention_backend", "mine", True),
        ("speculative_draft_attention_backend", "mine", True),
        ("decode_attention_backend", "mine", True),
        ("speculative_draft_attention_backend", "others", False),
    ],
)
def test_a_backend_of_attention_may_be_registered_in_init_backend(
    argument: str, registered: str, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = ModuleType("sglang.srt.layers.attention.attention_registry")
    registry.ATTENTION_BACKENDS = {}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, registry.__name__, registry)

    def init_backend() -> None:
        registry.ATTENTION_BACKENDS[registered] = object  # type: ignore[attr-defined]

    parts = SimpleNamespace(init_backend=init_backend)
    platform = SimpleNamespace(get_attention_backends=lambda: {"own": object})
    subject: Any = SimpleNamespace(platform=platform, parts=parts, host="none")
    for known in ("triton", "own"):
        expect_known(subject, argument, known, "it answers")
    with contextlib.nullcontext() if taken else pytest.raises(CheckFailed, match="neither SGLang's nor"):
        expect_known(subject, argument, "mine", "it answers 'mine',")


@pytest.mark.parametrize(
    ("wrong", "end"),
    [
        ("torch", "did you mean 'torch_native'?"),
        ("trition", "did you mean 'triton'?"),
        ("x", "the names are torch_native, triton"),
    ],
)
def test_the_nearest_name_is_told(wrong: str, end: str) -> None:
    assert names_like(wrong, {"triton", "torch_native"}).endswith(end)
