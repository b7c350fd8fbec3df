"""What a release cannot do is listed; what a process starts loads its plugins first."""

from __future__ import annotations

import multiprocessing
import pickle
from typing import Any

import pytest

from sglang_platform.core import PlatformCapabilities, PlatformEnum, SRTPlatform
from sglang_platform.core.sglang.arguments.host_limits import limits_of
from sglang_platform.core.sglang.start import child_processes
from sglang_platform.core.sglang.versions import facts_for


class Device(SRTPlatform):
    _enum = PlatformEnum.OOT
    device_name = "limits"


class Able(Device):
    capabilities = PlatformCapabilities(fp8=True, hicache_device_kernels=True, supports_triton=True)

    def get_full_graph_backend_cls(self) -> type | None:
        return None

    def get_speculative_worker_cls(self, algorithm: str) -> type | None:
        return None

    def post_load_model(self, model: Any) -> None: ...


def names(platform: Any, version: str) -> set[str]:
    return {limit.name for limit in limits_of(platform, facts_for(version))}


def test_a_platform_that_overrides_nothing_has_no_limits() -> None:
    for version in ("0.5.11", "0.5.18", "0.5.23"):
        assert names(Device(), version) == set()


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.5.11", {"get_full_graph_backend_cls()", "get_speculative_worker_cls()", "capabilities.fp8",
                    "capabilities.hicache_device_kernels"}),
        ("0.5.22", {"get_speculative_worker_cls()", "capabilities.fp8"}),
        ("0.5.23", {"capabilities.fp8"}),
    ],
)  # fmt: skip
def test_limits_are_what_the_release_does_not_ask_for(version: str, expected: set[str]) -> None:
    assert names(Able(), version) == expected


def test_what_older_hosts_ask_only_out_of_tree_platforms_is_a_limit_of_the_others() -> None:
    class InTree(Device):
        _enum = PlatformEnum.CUDA

        def get_graph_runner_cls(self) -> type | None:
            return None

    assert names(InTree(), "0.5.20") == {"get_graph_runner_cls()"}
    assert names(InTree(), "0.5.22") == set()


def test_pieces_of_prefill_are_a_limit_where_the_host_has_no_argument_for_them() -> None:
    class Piecewise(Device):
        def get_piecewise_backend_cls(self) -> type | None:
            return None

    for version in ("0.5.11", "0.5.21"):
        assert names(Piecewise(), version) == set()
    for version in ("0.5.22", "0.5.23"):
        assert names(Piecewise(), version) == {"get_piecewise_backend_cls()"}


def test_the_adapters_own_class_before_the_vendors_hides_no_limit() -> None:
    from sglang_platform.core.sglang.arguments.host_limits import overridden
    from sglang_platform.core.sglang.start.llm_platform import _HostFacing

    class InTree(Device):
        _enum = PlatformEnum.CUDA

        def get_graph_runner_cls(self) -> type | None:
            return None

    rebased = type("InTree", (_HostFacing, InTree), {"_rebased_by_host": True})
    assert overridden(rebased, "get_graph_runner_cls")
    assert not overridden(rebased, "get_kv_pool_cls")


def _target(x: int) -> int:
    return x + 1


def _as_if_the_hosts(function: Any) -> Any:
    function.__module__ = "sglang.srt.managers.detokenizer_manager"
    return function


def test_only_targets_that_run_the_host_are_wrapped() -> None:
    def hosts(*args: Any) -> None: ...

    process = object()
    assert child_processes._wrap_target(process, target=_target) is None
    assert child_processes._wrap_target(process) is None
    wrapped = child_processes._wrap_target(process, target=_as_if_the_hosts(hosts), args=(1,))
    assert wrapped is not None
    (args, kwargs) = wrapped
    assert args == (process,)
    assert isinstance(kwargs["target"], child_processes.PluginsFirst)
    assert kwargs["args"] == (1,)
    assert child_processes._wrap_target(process, **kwargs) is None  # not twice
    by_position = child_processes._wrap_target(process, None, hosts)
    assert by_position is not None
    assert isinstance(by_position[0][2], child_processes.PluginsFirst)


def test_a_wrapped_target_is_pickled_with_what_it_runs() -> None:
    again = pickle.loads(pickle.dumps(child_processes.PluginsFirst(_target)))
    assert again.target is _target


def test_a_process_of_multiprocessing_takes_the_wrapped_target() -> None:
    from sglang_platform.core import HookRegistry

    child_processes.register_hooks(None, facts_for("0.5.23"))
    HookRegistry.apply_hooks()
    try:

        def hosts() -> None: ...

        process = multiprocessing.get_context("spawn").Process(target=_as_if_the_hosts(hosts), daemon=True)
        assert isinstance(process._target, child_processes.PluginsFirst)  # type: ignore[attr-defined]
        assert process.daemon
        plain = multiprocessing.Process(target=_target)
        assert plain._target is _target  # type: ignore[attr-defined]
    finally:
        HookRegistry.reset()
