"""Faults of the parts that a plugin registers: wrappers, pools, listeners, coordinators, models."""

from __future__ import annotations

from fault_definition import Fault, general

__all__ = ["FAULTS"]

HEAD = """
from sglang_platform.core.registries import *
from sglang_platform.core.registries import quant, pools, models
"""
LOAD = "from framework import load_plugins\nload_plugins()\n"
FP4 = "from sglang_platform.core.registries import register_quant_wrapper\n"


def _fault(name: str, title: str, act: str, ends: str, *says: str, **rest: object) -> Fault:
    return Fault(name, title, HEAD + act, ends, says, not_in_host="no registries", **rest)  # type: ignore[arg-type]


FAULTS = [
    _fault(
        "part-twice",
        "two plugins register a part under one id",
        LOAD,
        "PluginFailed",
        "RegistryError: two quant wrappers are registered as 'fp4'",
        "one (one-dist 1.0) registered",
        "loaded before it in this process: one (one-dist 1.0)",
        plugin="two (two-dist 1.0)",
        distributions=tuple(
            general(one, FP4 + "register_quant_wrapper('fp4', lambda layer, args: None, print)")
            for one in ("one", "two")
        ),
    ),
    _fault(
        "part-repr",
        "two parts have one id, and the first one's `__repr__` raises",
        """
class Odd:
    def __repr__(self): raise OSError
    def __call__(self, scheduler): ...
register_request_coordinator('follow', Odd())
register_request_coordinator('follow', Odd())
""",
        "RegistryError",
        "two request coordinators are registered as 'follow'",
        "<Odd object, whose __repr__ raises OSError>",
    ),
    _fault(
        "part-id-number",
        "a part is registered under a number",
        "register_quant_wrapper(4, lambda layer, args: None, print)",
        "RegistryError",
        "a quant wrapper needs a non-empty str as its id, not 4",
    ),
    _fault(
        "predicate-raises",
        "a plugin's predicate raises when a pool is chosen",
        LOAD + "pools.resolve_kv_pool_factory(None, None)",
        "RegistryError",
        "the predicate of KV pool factory 'paged' failed",
        "AttributeError: 'NoneType' object has no attribute 'hf_config'",
        "one_hooks.py:4",
        plugin="one (one-dist 1.0)",
        distributions=(
            general(
                "one",
                "from sglang_platform.core.registries import register_kv_pool_factory\n"
                "register_kv_pool_factory('paged', lambda model, args: model.hf_config, lambda kind: None)",
            ),
        ),
    ),
    _fault(
        "factory-exits",
        "a plugin's factory of coordinators ends the process",
        LOAD + "create_coordinator('follow', scheduler=None)",
        "RegistryError",
        "the factory of request coordinator 'follow' failed",
        "SystemExit: no licence",
        plugin="one (one-dist 1.0)",
        distributions=(
            general(
                "one",
                "from sglang_platform.core.registries import register_request_coordinator\n"
                "def make(scheduler): raise SystemExit('no licence')\n"
                "register_request_coordinator('follow', make)",
            ),
        ),
    ),
    _fault(
        "factory-answers-none",
        "a plugin's factory of wrappers forgets to return the wrapper",
        LOAD + "quant.wrap('a layer', 'its method', None)",
        "RegistryError",
        "the factory of quant wrapper 'fp4' answered NoneType",
        "derive it from QuantMethodWrapper and set _quant_wrapper_id",
        plugin="one (one-dist 1.0)",
        distributions=(
            general(
                "one",
                FP4 + "register_quant_wrapper('fp4', lambda layer, args: 1, lambda layer, method, ctx: None)",
            ),
        ),
    ),
    _fault(
        "wrapper-late",
        "a wrapper is registered after layers have their methods",
        """
method = quant.wrap('a layer', 'its method', None)
class Late(QuantMethodWrapper):
    _quant_wrapper_id = 'late'
register_quant_wrapper('late', lambda layer, args: 1, lambda layer, method, ctx: Late(method))
see(f'wrapped: {is_wrapped(method, "late")}')
""",
        "warning",
        "the quant wrapper 'late' came after layers were wrapped: it is not on those",
        seen="wrapped: False",
    ),
    _fault(
        "listener-misspelt",
        "a listener's method is misspelt",
        """
class Listener:
    def on_forward_start(self, forward_batch): ...
register_forward_hook('log', Listener())
""",
        "RegistryError",
        "lifecycle listener 'log' has methods that no event calls: on_forward_start",
        "on_forward_start -> on_forward_",
    ),
    _fault(
        "coordinator-unknown",
        "a model asks for a coordinator that nobody registered",
        "register_request_coordinator('follow', print)\ncreate_coordinator('folow', scheduler=None)",
        "RegistryError",
        "there is no request coordinator 'folow'; did you mean 'follow'?",
        "known: follow",
    ),
    _fault(
        "model-place-path",
        "a model is registered by its class's dotted name",
        "register_model('MineForCausalLM', 'mine.model.MineForCausalLM')",
        "RegistryError",
        "'mine.model.MineForCausalLM' is no place of a model class",
        "it must read pkg.mod:Class",
    ),
    _fault(
        "model-exits",
        "a model's module ends the process while it is imported",
        "register_model('MineForCausalLM', 'mine_model:Mine')\nmodels.load_model('MineForCausalLM')",
        "RegistryError",
        "the class mine_model:Mine of model architecture 'MineForCausalLM' failed",
        "SystemExit: no kernels",
        modules={"mine_model": "raise SystemExit('no kernels')"},
    ),
]
