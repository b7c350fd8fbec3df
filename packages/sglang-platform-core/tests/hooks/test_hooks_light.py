"""Hooks cost nothing where there are none: no heavy imports, one finder, one pass over the modules for all targets."""

from __future__ import annotations

import sys

from sglang_platform.core.hooks.references import sweep
from sglang_platform.core.hooks.registry import HookRegistry, HookType


def test_registering_imports_neither_the_target_nor_anything_heavy(run_program):
    (heavy,) = run_program("register_fifty_hooks.py").stdout.split()
    assert heavy == "-"


def test_applying_reads_the_source_and_imports_nothing(host):
    host.write(quiet____init__="raise RuntimeError('imported')", quiet__mod="class C:\n    def m(self): ...")
    HookRegistry.register("quiet.mod:C.m", print, HookType.BEFORE)
    HookRegistry.apply_hooks()
    assert not {"quiet", "quiet.mod"} & set(sys.modules)


def test_stale_bindings_of_all_targets_take_one_pass(host, monkeypatch):
    names = [f"f{i}" for i in range(50)]
    host.write(
        wide="\n".join(f"def {name}(): return {name!r}" for name in names),
        user=f"from wide import {', '.join(names)}",
    )
    user = host.load("user")
    for name in names:
        HookRegistry.register(f"wide:{name}", lambda result: result + "!")
    passes = []
    listing = sweep.module_namespaces
    monkeypatch.setattr(sweep, "module_namespaces", lambda: passes.append(1) or listing())
    HookRegistry.apply_hooks()
    assert [getattr(user, name)() for name in names] == [name + "!" for name in names]
    assert len(passes) == 1


def test_a_hooked_call_is_one_frame_for_all_before_and_after_hooks(host):
    host.write(deep="import sys\ndef f(): return sys._getframe(1)")
    for _ in range(5):
        HookRegistry.register("deep:f", lambda: None, HookType.BEFORE)
        HookRegistry.register("deep:f", lambda result: None)
    HookRegistry.apply_hooks()
    frame = host.load("deep").f()
    assert frame.f_code.co_filename == "<hooks on deep:f>"
    assert frame.f_back.f_code is sys._getframe().f_code


def test_core_offers_the_hooks_by_name():
    import sglang_platform.core as core

    assert core.HookRegistry is HookRegistry
    assert core.HookType is HookType
