"""Releases that do not exist: a line in a table is all that a change of the host needs."""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.version import Version

from sglang_platform.core import PlatformEnum, SRTPlatform
from sglang_platform.core.contract import bridges, drift
from sglang_platform.core.contract.bridges import older_methods
from sglang_platform.core.contract.drift_rows import ChangedSignature, DriftRow, Renamed, checked
from sglang_platform.core.errors import ContractError
from sglang_platform.core.sglang import versions
from sglang_platform.core.sglang.arguments.host_limits import limits_of
from sglang_platform.core.sglang.ops import fused as fused_ops
from sglang_platform.core.sglang.versions import History, HostFacts, facts_for
from tools.versions.report import _seams

LAST = versions.NEWEST
_MAJOR, _MINOR, _PATCH = Version(LAST).release
INVENTED, LATER = (f"{_MAJOR}.{_MINOR}.{_PATCH + more}" for more in (1, 2))


class Runner:
    pass


@pytest.fixture
def drifted(monkeypatch: pytest.MonkeyPatch) -> Callable[[DriftRow], None]:
    """Adds a row to the contract's table."""
    monkeypatch.setattr(bridges, "_logged", set())

    def add(row: DriftRow) -> None:
        monkeypatch.setattr(drift, "TABLE", checked((*drift.TABLE, row)))

    return add


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Any], None]]:
    """Gives a fact another value from the invented release on."""
    facts_for.cache_clear()

    def change(name: str, newest: Any) -> None:
        former, before = versions.TABLE[name]
        monkeypatch.setitem(versions.TABLE, name, History(newest, {INVENTED: former, **before}))

    monkeypatch.setattr(versions, "NEWEST", INVENTED)
    yield change
    facts_for.cache_clear()


def make(**body: Any) -> tuple[Any, list[str]]:
    """A platform, and the deprecation warnings that its class gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cls = type("Vendor", (SRTPlatform,), {"_enum": PlatformEnum.OOT, "__module__": __name__, **body})
    return cls(), [str(warning.message) for warning in caught]


def hosted(cls: type, release: str) -> Any:
    """An object of the class as a host of this release gets it."""
    return type("Hosted", (cls,), {**older_methods(release), "_rebased_by_host": True})()


def names_of_limits(platform: Any, release: str) -> set[str]:
    return {limit.name for limit in limits_of(platform, facts_for(release))}


def matrix(*releases: str) -> str:
    return "\n".join(_seams(list(releases)))


def asked_in_older_forms(release: str) -> set[str]:
    """The names in the matrix's row of that title."""
    (row,) = re.findall(r"^\| asked in older forms \| (.*) \|$", matrix(release), re.MULTILINE)
    return set(re.findall(r"`(\w+)`", row))


@pytest.mark.parametrize("until", [INVENTED, None])
def test_a_renamed_platform_method(
    drifted: Callable[[DriftRow], None],
    changed: Callable[[str, Any], None],
    caplog: pytest.LogCaptureFixture,
    until: str | None,
) -> None:
    with pytest.raises(ContractError, match="get_speculative_worker_class is not a name of the contract"):
        make(get_speculative_worker_class=lambda self, algorithm: Runner)

    drifted(Renamed("get_speculative_worker_class", "get_speculative_worker_cls", INVENTED, until))

    with pytest.raises(ContractError, match="get_speculative_worker_class lost parameter 'algorithm'"):
        make(get_speculative_worker_class=lambda self: Runner)
    with caplog.at_level(logging.WARNING):
        older, said = make(get_speculative_worker_class=lambda self, algorithm: (Runner, algorithm))
        make(get_speculative_worker_class=lambda self, algorithm: (Runner, algorithm))
    assert older.get_speculative_worker_cls("EAGLE") == (Runner, "EAGLE")
    assert older.get_speculative_worker_cls(algorithm="EAGLE") == (Runner, "EAGLE")
    bridge = vars(type(older))["get_speculative_worker_cls"]
    assert bridge._serves_older_names == {"get_speculative_worker_class"}
    assert len(said) == 1
    assert "served as get_speculative_worker_cls()" in said[0]
    assert [record.levelname for record in caplog.records] == ["WARNING"], "logged once for the class"
    assert said[0] in caplog.text

    today, said = make(get_speculative_worker_cls=lambda self, algorithm: (Runner, algorithm))
    assert said == []
    for platform in (today, older):
        for release in (INVENTED, *([LATER] if until is None else [])):
            host = hosted(type(platform), release)
            assert host.get_speculative_worker_class("EAGLE") == (Runner, "EAGLE")
            assert host.get_speculative_worker_class(algorithm="EAGLE") == (Runner, "EAGLE")
        assert names_of_limits(platform, "0.5.22") == {"get_speculative_worker_cls()"}
        assert names_of_limits(platform, INVENTED) == set()
    assert "get_speculative_worker_class" not in older_methods(LAST)

    assert asked_in_older_forms(INVENTED) - asked_in_older_forms(LAST) == {"get_speculative_worker_class"}


def test_a_changed_signature(drifted: Callable[[DriftRow], None]) -> None:
    def in_two_words(self: Any, method: str, variant: str) -> Any:
        return method, variant

    with pytest.raises(ContractError, match="renames parameter"):
        make(get_quantization_config=in_two_words)

    drifted(
        ChangedSignature(
            "get_quantization_config",
            "get_quantization_config",
            INVENTED,
            INVENTED,
            older_from_today=lambda older, quantization: older(*quantization.split("_", 1)),
            today_from_older=lambda today, method, variant: today(f"{method}_{variant}"),
        )
    )

    with pytest.raises(ContractError, match="renames parameter"):
        make(get_quantization_config=lambda self, method, form: None)
    older, said = make(get_quantization_config=in_two_words)
    assert older.get_quantization_config("fp8_static") == ("fp8", "static")
    assert older.get_quantization_config(quantization="fp8_static") == ("fp8", "static")
    assert len(said) == 1
    assert (
        f"get_quantization_config(self, method, variant) has the parameters of SGLang {INVENTED}" in said[0]
    )
    assert "served as get_quantization_config(self, quantization)" in said[0]

    today, said = make(get_quantization_config=lambda self, quantization: quantization)
    assert said == []
    host = hosted(type(today), INVENTED)
    assert host.get_quantization_config("fp8", "static") == "fp8_static"
    assert host.get_quantization_config(method="fp8", variant="static") == "fp8_static"
    assert host.get_quantization_config("fp8_static") == "fp8_static", "called by the platform itself"
    assert hosted(type(older), INVENTED).get_quantization_config("fp8", "static") == ("fp8", "static")
    assert "get_quantization_config" not in older_methods(LATER)
    assert asked_in_older_forms(INVENTED) - asked_in_older_forms(LAST) == {"get_quantization_config"}


def test_a_renamed_class_of_the_host(
    changed: Callable[[str, Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    class UnitedOp:
        carried: dict[str, Any] = {}

        @classmethod
        def register_oot_forward(cls, op: type, forward: Any, key: str) -> None:
            cls.carried[key] = forward

    module = ModuleType("sglang_invented_ops")
    module.UnitedOp = UnitedOp  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)

    changed("op_class", f"{module.__name__}:UnitedOp")

    assert facts_for(INVENTED).op_class == "sglang_invented_ops:UnitedOp"
    assert facts_for(LAST).op_class == "sglang.kernels.fused_op:BaseFusedOp"
    assert facts_for("0.5.17").op_class == "sglang.srt.layers.utils.multi_platform:MultiPlatformOp"
    assert versions.since("op_class") == versions.known_releases()[-1] == INVENTED
    assert "| op class | `MultiPlatformOp` | `BaseFusedOp` | `UnitedOp` |" in matrix("0.5.17", LAST, INVENTED)

    seen: list[str] = []

    def load(place: str) -> type:
        seen.append(place)
        return UnitedOp

    monkeypatch.setattr(fused_ops, "facts", lambda: facts_for(INVENTED))
    monkeypatch.setattr(fused_ops, "load", load)
    fused_ops.register_fused_ops("a key of no op")
    assert seen == ["sglang_invented_ops:UnitedOp"]


def test_a_question_that_a_release_begins_to_ask(changed: Callable[[str, Any], None]) -> None:
    changed("asks_piecewise_backend", True)
    platform, _ = make(get_piecewise_backend_cls=lambda self: Runner)
    assert names_of_limits(platform, INVENTED) == set()
    assert names_of_limits(platform, LAST) == {"get_piecewise_backend_cls()"}


def test_a_release_without_differences_needs_no_line(changed: Callable[[str, Any], None]) -> None:
    assert facts_for(INVENTED) == HostFacts(INVENTED)


class Unknown(DriftRow):
    """A kind of row that nobody taught the bridges."""


def test_an_unknown_kind_of_row_is_refused_when_the_table_is_imported() -> None:
    source = Path(drift.__file__).read_text()
    begins = "TABLE: tuple[DriftRow, ...] = checked(("
    assert begins in source
    for row in ('("get_old", "get_new")', 'DriftRow("get_old", "get_new", "0.5.11", "0.5.12")'):
        with pytest.raises(ContractError, match=r"row of an unknown kind: .*get_old"):
            exec(source.replace(begins, f"{begins}{row},"), {"__name__": "drift_with_an_unknown_row"})
    with pytest.raises(ContractError, match=r"Unknown.*get_old"):
        checked((Unknown("get_old", "get_new", "0.5.11", None),))


def test_two_rows_for_one_name_in_one_release_are_refused() -> None:
    first = Renamed("get_old", "get_new", "0.5.11", "0.5.20")
    with pytest.raises(ContractError, match="two rows for get_old"):
        checked((first, Renamed("get_old", "get_other", "0.5.20", None)))
    assert checked((first, Renamed("get_old", "get_other", "0.5.21", None)))
