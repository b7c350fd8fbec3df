"""An error is told as the platform's or as the suite's own, by where it was raised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from sglang_platform.conformance import blame
from sglang_platform.conformance.check import Check, expect, registered
from sglang_platform.conformance.host.engine import EngineFailed, RequestRefused
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.conformance.subject import Subject
from sglang_platform.conformance.verdict import EXIT_STATUS, judge
from sglang_platform.conformance.worker import run_check
from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.portable.torch.device import TorchDeviceMixin

pytestmark = pytest.mark.usefixtures("chosen_here")

HERE = __name__
REFERENCE = "sglang_platform.conformance.reference.platform:ReferencePlatform"


class _Raises(ReferencePlatform):
    def get_compile_backend(self, mode: str | None = None) -> str:
        return {"default": "eager"}[str(mode)]

    extra_public_names = frozenset({"answers", "takes_one", "looks_up", "calls", "differentiates"})

    def looks_up(self) -> Any:
        return torch.zeros(2)[torch.tensor([5])]

    def calls(self, function: Any, *given: Any) -> Any:
        return function(*given)

    def differentiates(self, x: Any, wrong: Any) -> None:
        (x * 2).sum().backward(wrong)

    def takes_one(self, one: int) -> int:
        return one

    def answers(self) -> Any:
        return None


def _outcome(function: Any, monkeypatch: pytest.MonkeyPatch, platform: type = _Raises) -> dict[str, Any]:
    check = Check("contract.tried", Level.CONTRACT, function, (), None, "mend it", ("none",), "platform", 60)
    subject = Subject("tried", location=REFERENCE)
    monkeypatch.setattr(type(subject), "platform", platform())
    return run_check(check, subject, 0)


def _in_suite(source: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A check whose code stands, as far as Python can tell, in a file of the suite."""
    names: dict[str, Any] = {"expect": expect, "__name__": "sglang_platform.conformance.checks.tried"}
    exec(compile(source, f"{blame._OWN}/checks/tried.py", "exec"), names)
    return names["check"]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("[][3]", "suite_failed"),
        ("no_such_name", "suite_failed"),
        ("int('nine')", "suite_failed"),
        ("import json; json.loads('{')", "suite_failed"),
        ("platform.answers().shape", "suite_failed"),
        ("expect(False, 'wrong')", "failed"),
        ("platform.get_compile_backend('other')", "failed"),
        ("platform.takes_one()", "failed"),
        ("platform.no_such_method()", "failed"),
        ("platform.get_default_speculative_draft_attention_backend('EAGLE')", "failed"),
        ("pass", "passed"),
    ],
)
def test_whose_error_it_is(line: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"def check(subject):\n    platform = subject.platform\n    {line}\n"
    found = _outcome(_in_suite(source, monkeypatch), monkeypatch)
    assert found["status"] == status, found
    if status == "suite_failed":
        assert found["why"].startswith("the suite failed here, not the platform: ")
        assert "tried.py:3" in found["why"]
        assert found["trace"]


_MODES = """
import contextlib, torch
from unittest import mock
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

class Watched(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

class Seen(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

def model(x):
    return torch.zeros(2)[x]

def of_module(x):
    return torch.no_such_function(x)

def misspelt(x):
    return no_such_name

@contextlib.contextmanager
def within(mode):
    with mode:
        yield

def check(subject):
    platform = subject.platform
    x = torch.ones(2, requires_grad=True)
    far = torch.tensor([5])
"""


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("with Watched(): platform.looks_up()", "failed"),
        ("with within(Watched()): platform.looks_up()", "failed"),
        ("with Seen(): platform.looks_up()", "failed"),
        ("with Seen(), Watched(): platform.calls(tree_map, model, far)", "failed"),
        ("platform.calls(model, far)", "failed"),
        ("platform.calls(lambda: model(None).shape.no_such_field)", "failed"),
        ("platform.calls(model, None, None)", "failed"),
        ("with mock.patch.object(platform, 'answers', lambda: model(far)): platform.calls(platform.answers)", "failed"),
        ("with Watched(): platform.differentiates(x, torch.ones(3))", "failed"),
        ("x.register_hook(lambda grad: grad[far]); platform.differentiates(x, None)", "failed"),
        ("platform.calls(misspelt, far)", "suite_failed"),
        ("platform.calls(of_module, far)", "suite_failed"),
        ("with Watched(): model(far)", "suite_failed"),
        ("with Watched(): platform.answers()", "passed"),
    ],
)  # fmt: skip
def test_whose_error_it_is_below_what_the_platform_calls_back(
    line: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _outcome(_in_suite(f"{_MODES}    {line}\n", monkeypatch), monkeypatch)
    assert found["status"] == status, found
    if status == "failed":
        (failing,) = found["failing"]
        assert failing["place"].startswith(f"{__file__}:"), failing


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("platform.get_device_uuid()", f"override get_device_uuid() in {HERE}:_OnTorch ("),
        ("platform.get_device_capability(1)", f"override get_device_capability() in {HERE}:_OnTorch ("),
        ("platform.set_device(None)", f"override set_device() in {HERE}:_OnTorch ("),
        ("platform.get_compile_backend()", "correct what raises in get_compile_backend() at "),
        ("platform.empty_cache()", "correct what empty_cache() at "),
        (
            "platform.get_default_attention_backend()",
            f"override get_default_attention_backend() in {HERE}:_OnTorch",
        ),
        ("platform.get_mm_processor(1)", "mend it"),
    ],
)
def test_the_fix_names_the_vendors_class(line: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"def check(subject):\n    platform = subject.platform\n    {line}\n"
    found = _outcome(_in_suite(source, monkeypatch), monkeypatch, _OnTorch)
    assert found["status"] == "failed", found
    assert words in found["fix"]
    assert "mend it" in found["fix"]
    assert "sglang_platform/" not in found["fix"], "a file of ours"


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("platform.looks_up()", "return torch.zeros(2)["),
        ("expect(False, 'takes_one() answers 3')", "def takes_one"),
        ("expect(False, 'x', fix='answer from looks_up() and not from answers()')", "def looks_up"),
        (f"expect(False, '{HERE}.Part.stores(x) lost a parameter')", "def stores"),
        ("expect(False, 'wrong')", "class _Raises"),
        ("subject.built = PART; expect(False, 'stores() writes nothing')", "def stores"),
        ("subject.built = PART; expect(False, 'wrong')", "class Part"),
        ("subject.built = PART.stores; expect(False, 'wrong')", "def stores"),
        ("subject.built = dict; expect(False, 'wrong')", "class _Raises"),
    ],
)
def test_a_failure_names_the_plugins_line(line: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check = _in_suite(f"def check(subject):\n    platform = subject.platform\n    {line}\n", monkeypatch)
    check.__globals__["PART"] = Part
    file, _, at = _outcome(check, monkeypatch)["place"].rpartition(":")
    assert file == __file__
    assert place in Path(file).read_text().splitlines()[int(at) - 1]


class Part:
    """A part of the platform."""

    def stores(self, x: Any) -> None:
        pass


class _OnTorch(SRTPlatform, TorchDeviceMixin):
    """On a device of which torch has no module."""

    device_name = device_type = "nowhere"

    def get_compile_backend(self, mode: str | None = None) -> str:
        return {"default": "eager"}[str(mode)]

    def empty_cache(self) -> None:
        super().empty_cache()


def op_values(op: Any, positions: Any) -> None:
    """Of a platform, named as a check of the suite is."""


def test_a_function_of_the_platform_with_a_name_of_the_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "def check(subject):\n    subject.platform.answers = ROTATE\n    subject.platform.answers(1, 2, 3)\n"
    )
    check = _in_suite(source, monkeypatch)
    check.__globals__["ROTATE"] = op_values
    assert any(one.id == "kernels.op_values" for one in registered().values())
    found = _outcome(check, monkeypatch)
    assert found["status"] == "failed", found
    assert "takes 2 positional arguments but 3 were given" in found["what"]


def test_an_error_of_a_device_in_native_code_is_the_platforms() -> None:
    def native() -> None:
        raise RuntimeError("the device has no such operator")

    names: dict[str, Any] = {"native": native}
    source = "def check():\n    raise RuntimeError('no operator')\n"
    exec(compile(source, f"{blame._OWN}/checks/tried.py", "exec"), names)
    with pytest.raises(RuntimeError) as caught:
        names["check"]()
    assert blame.is_the_suites(caught.value, "cpu")
    assert not blame.is_the_suites(caught.value, "mychip")


@pytest.mark.parametrize(
    ("said", "device_type", "late"),
    [
        ("loc holds 65, outside [0, 65)", "mychip", True),
        ("loc holds 65, outside [0, 65)", "cpu", False),
        ("list index out of range", "mychip", False),
    ],
)
def test_an_index_that_a_device_refuses_may_come_late(said: str, device_type: str, late: bool) -> None:
    source = f"def check():\n    raise IndexError({said!r})\n"
    names: dict[str, Any] = {}
    exec(compile(source, f"{blame._OWN}/checks/tried.py", "exec"), names)
    with pytest.raises(IndexError) as caught:
        names["check"]()
    assert blame.may_come_late(caught.value, device_type) is late
    assert blame.is_the_suites(caught.value, device_type) is not late


def test_an_error_that_python_code_raises_is_not_late() -> None:
    with pytest.raises(RuntimeError) as caught:
        raise RuntimeError("refused")
    assert not blame.may_come_late(caught.value, "mychip")


@pytest.mark.parametrize("raised", [EngineFailed, RequestRefused])
def test_what_happens_in_the_hosts_processes_is_the_platforms(raised: type[EngineFailed]) -> None:
    names: dict[str, Any] = {"raised": raised}
    source = "def check():\n    raise raised('SGLang died')\n"
    exec(compile(source, f"{blame._OWN}/host/tried.py", "exec"), names)
    with pytest.raises(EngineFailed) as caught:
        names["check"]()
    assert not blame.is_the_suites(caught.value, "cpu")


def test_a_failure_of_the_suite_leaves_the_verdict_incomplete() -> None:
    outcome = {
        "id": "contract.device_is_named",
        "status": "suite_failed",
        "failing": [],
        "widened": [],
        "cause": None,
    }
    found = judge([outcome], ["core"])
    assert EXIT_STATUS[found.word] == 3
    assert "the suite failed" in found.headline
    assert json.loads(json.dumps(found.as_dict()))["suite_failed"] == ["contract.device_is_named"]
