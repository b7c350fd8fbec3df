"""What tools of others read on SGLang's registry, on ours: `_hooks` and `_patched`, and the names of its documents."""

from __future__ import annotations

import json

import pytest

from sglang_platform.core import HookRegistry, HookType, plugin_hook, resolve_obj, sglang_hook
from sglang_platform.core.errors import PluginOrigin


def after(result, *args, **kwargs):
    return None


def test_the_views_tell_what_is_registered_and_cannot_be_written():
    target = "json.decoder:JSONDecoder.decode"
    assert sglang_hook is plugin_hook
    sglang_hook(target, type=HookType.AFTER, source=PluginOrigin("vendor", "vendor-dist", "1.0"))(after)
    key = "json.decoder.JSONDecoder.decode"
    ((type_, hook, source),) = HookRegistry._hooks[key]
    assert (type_, hook, tuple(source)) == (HookType.AFTER, after, ("vendor", "vendor-dist"))
    HookRegistry.apply_hooks()
    assert key in HookRegistry._patched
    with pytest.raises(TypeError):
        HookRegistry._hooks[key] = ()
    with pytest.raises(AttributeError):
        HookRegistry._patched.add("other")
    for name in ("_hooks", "_patched"):
        with pytest.raises(AttributeError):
            setattr(HookRegistry, name, {})
        with pytest.raises(AttributeError):
            delattr(HookRegistry, name)
    HookRegistry.reset()
    assert not HookRegistry._hooks
    assert not HookRegistry._patched


def test_an_object_by_its_name():
    assert resolve_obj("json.decoder:JSONDecoder.decode") is json.JSONDecoder.decode
    assert resolve_obj("json.decoder.JSONDecoder") is json.JSONDecoder
    with pytest.raises(AttributeError):
        resolve_obj("json:nothing")
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        resolve_obj("nowhere.mod:Class")


def test_a_hook_whose_own_text_fails_is_registered_and_told():
    class Rude:
        def __call__(self, result, *args, **kwargs):
            return None

        def __repr__(self):
            raise ValueError("no")

    HookRegistry.register("json.decoder:JSONDecoder.decode", Rude())
    (row,) = HookRegistry.report()
    assert "Rude object, whose __repr__ raises ValueError" in str(row)
    HookRegistry.reset()
    not_callable = type("Ruder", (), {"__repr__": Rude.__repr__})()
    with pytest.raises(TypeError, match="is not callable: <Ruder object, whose __repr__ raises ValueError>"):
        HookRegistry.register("json.decoder:JSONDecoder.decode", not_callable)
