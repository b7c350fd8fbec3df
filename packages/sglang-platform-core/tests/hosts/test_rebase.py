from __future__ import annotations

import abc
from typing import Any

import pytest

from sglang_platform.core.sglang.rebase import host_first, rebase


class CorePool:
    def __init__(self, size: int) -> None:
        self.trail = ["core.init"]
        self.size = size

    def create(self) -> str:
        return "core.create"

    def store(self) -> str:
        return "core.store"

    def only_core(self) -> str:
        return "core.only"


class HostBase(abc.ABC):
    @abc.abstractmethod
    def store(self) -> str: ...

    def only_host(self) -> str:
        return f"host.only+{self.store()}"


class HostPool(HostBase):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.trail = ["host.init"]
        self.size = size
        self.created = self.create()

    def create(self) -> str:
        return "host.create"

    def store(self) -> str:
        return "host.store"


class Mixin:
    def store(self) -> str:
        return f"mixin+{super().store()}"  # type: ignore[misc]


class VendorPool(Mixin, CorePool):
    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.trail.append("vendor.init")

    def create(self) -> str:
        return f"vendor+{super().create()}"


def test_vendor_code_runs_before_the_host_and_super_reaches_the_host() -> None:
    cls = rebase(VendorPool, CorePool, HostPool, bridge=host_first(CorePool, HostPool))
    pool: Any = cls(7)
    assert pool.trail == ["host.init", "vendor.init"]
    assert pool.created == "vendor+host.create"
    assert pool.store() == "mixin+host.store"
    assert pool.only_host() == "host.only+mixin+host.store"
    assert pool.only_core() == "core.only"
    assert isinstance(pool, VendorPool)
    assert isinstance(pool, HostPool)


def test_without_a_bridge_core_serves_and_the_host_supplies_the_rest() -> None:
    pool: Any = rebase(VendorPool, CorePool, HostBase)(7)
    assert pool.trail == ["core.init", "vendor.init"]
    assert pool.only_host() == "host.only+mixin+core.store"


def test_outer_goes_before_the_vendor() -> None:
    class Outer:
        def create(self) -> str:
            return f"outer+{super().create()}"  # type: ignore[misc]

    cls = rebase(
        type("Fresh", (VendorPool,), {}),
        CorePool,
        HostPool,
        bridge=host_first(CorePool, HostPool),
        outer=Outer,
    )
    assert cls(1).created == "outer+vendor+host.create"


def test_cores_own_class_is_taken_too() -> None:
    rebased = rebase(CorePool, CorePool, HostPool, bridge=host_first(CorePool, HostPool))
    pool = rebased(7)
    assert isinstance(pool, CorePool)
    assert isinstance(pool, HostPool)
    assert (rebased.__name__, pool.created, pool.only_core()) == ("CorePool", "host.create", "core.only")


def test_one_class_is_rebased_once_and_keeps_its_name() -> None:
    first = rebase(VendorPool, CorePool, HostPool)
    assert rebase(VendorPool, CorePool, HostPool) is first
    assert (first.__module__, first.__qualname__) == (VendorPool.__module__, VendorPool.__qualname__)


def test_a_class_of_the_host_passes_as_it_is() -> None:
    class Direct(HostPool):
        pass

    assert rebase(Direct, CorePool, HostPool) is Direct


def test_the_vendor_class_itself_is_left_alone() -> None:
    before = dict(vars(VendorPool))
    rebase(VendorPool, CorePool, HostPool, outer=type("Outer", (), {"create": lambda self: "x"}))
    assert dict(vars(VendorPool)) == before
    assert VendorPool(1).create() == "vendor+core.create"


def test_host_first_takes_only_what_both_define() -> None:
    bridge = host_first(CorePool, HostPool)
    assert set(bridge) == {"__init__", "create", "store"}
    with pytest.raises(TypeError):
        HostBase()  # type: ignore[abstract]
