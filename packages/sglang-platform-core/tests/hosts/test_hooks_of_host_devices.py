"""On a device that SGLang serves itself, its functions are hooked only where a part or a registry of ours needs it."""

from __future__ import annotations

import pytest

from sglang_platform.core.contract.device import PlatformEnum
from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.hooks.registry import HookRegistry
from sglang_platform.core.sglang.rebase import REBASED_MARK
from sglang_platform.core.sglang.start import all_hooks
from sglang_platform.core.sglang.versions import facts_for


def hooked(identity: PlatformEnum, release: str = "0.5.23") -> set[tuple[str, str]]:
    """The adapter's module, and the target, of each hook."""
    names = {"_enum": identity, "device_name": "cuda", "device_type": "cuda", REBASED_MARK: True}
    device = type("Device", (SRTPlatform,), names)()
    with HookRegistry.collecting() as registered:
        all_hooks.register_hooks(device, facts_for(release))
    return {(one.hook.__module__.partition(".core.sglang.")[2], one.key) for one in registered}


def modules(identity: PlatformEnum, release: str = "0.5.23") -> set[str]:
    return {module for module, _ in hooked(identity, release)}


REPAIRS = {"repairs.requests", "repairs.control_requests", "repairs.http_errors", "repairs.lost_process"}


@pytest.mark.host
@pytest.mark.parametrize("identity", [PlatformEnum.CUDA, PlatformEnum.ROCM], ids=lambda one: one.name)
def test_the_hosts_faults_are_left_to_it(identity: PlatformEnum) -> None:
    assert modules(PlatformEnum.OOT) >= REPAIRS
    assert not [name for name in modules(identity) if name.startswith("repairs.")]


@pytest.mark.host
def test_its_barrier_serves_where_it_has_one() -> None:
    order = "device.stream_order"
    assert order not in modules(PlatformEnum.CUDA)
    assert order in modules(PlatformEnum.CUDA, "0.5.13")
    assert order in modules(PlatformEnum.ROCM)
    assert order in modules(PlatformEnum.OOT)


@pytest.mark.host
def test_a_host_device_without_parts_of_ours_has_few_hooks() -> None:
    targets = {target for _, target in hooked(PlatformEnum.CUDA)}
    assert len(targets) <= 17, sorted(targets)
    assert not [
        one for one in targets if "tokenizer_manager" in one or "entrypoints" in one or "scheduler" in one
    ]
