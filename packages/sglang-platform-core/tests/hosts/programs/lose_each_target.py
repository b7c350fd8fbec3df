"""Applies the adapter's hooks on releases that do not exist: in each, one of their targets is gone.

Prints, as JSON, what became of each target, and of the installed release as it is.
"""

import contextlib
import importlib
import json
import logging
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from sglang_platform.core.errors import HookError, LaunchRefused
from sglang_platform.core.hooks.registration import Registration
from sglang_platform.core.hooks.registry import HookRegistry, plugin_source
from sglang_platform.core.registries.models import architectures, register_model
from sglang_platform.core.sglang import registration
from sglang_platform.core.sglang.device.stubs import AbsentModule
from sglang_platform.core.sglang.evidence import llm_counts
from sglang_platform.core.sglang.ops.fused import register_fused_ops
from sglang_platform.core.sglang.rebase import REBASED_MARK
from sglang_platform.core.sglang.registration import LaunchSettings, check_launch
from sglang_platform.core.sglang.start import all_hooks
from sglang_platform.core.sglang.start.plugin_loop import core_origin
from sglang_platform.core.sglang.versions import facts
from sglang_platform.example_oot.platform import ExampleOOTPlatform

FLAGS = "enable_lora enable_dp_attention enable_memory_saver enable_hierarchical_cache speculative_algorithm"


def plain() -> LaunchSettings:
    """A launch that uses no optional feature."""
    from transformers import LlamaConfig

    model = SimpleNamespace(hf_config=LlamaConfig(), quantization=None, linear_attn_registry_result=None)
    return LaunchSettings(SimpleNamespace(disaggregation_mode="null", **dict.fromkeys(FLAGS.split())), model)


def everything_used() -> LaunchSettings:
    from sglang.srt.configs import Lfm2Config

    config = Lfm2Config()
    config.final_logit_softcapping, config.shared_expert_intermediate_size = 30.0, 64
    model = SimpleNamespace(hf_config=config, quantization="awq", linear_attn_registry_result=None)
    return LaunchSettings(
        SimpleNamespace(disaggregation_mode="decode", **dict.fromkeys(FLAGS.split(), "given")), model
    )


class Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextlib.contextmanager
def gone(spelling: str) -> Iterator[None]:
    """The target is renamed in its module; where a base class has the name as well, its class is."""
    module, _, path = spelling.partition(":")
    *owners, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for one in owners:
        owner = getattr(owner, one)
    if isinstance(owner, type):
        having = [base for base in owner.__mro__ if name in vars(base)]
        owner = having[0]
        if len(having) > 1:
            owner, name = sys.modules[module], owners[0]
    original = vars(owner)[name]
    delattr(owner, name)
    setattr(owner, f"{name}_renamed", original)
    try:
        yield
    finally:
        delattr(owner, f"{name}_renamed")
        setattr(owner, name, original)


def applied(hooks: list[Registration], log: Warnings) -> dict[str, Any]:
    """What becomes of a launch with these hooks."""
    registration.forget()
    log.lines.clear()
    try:
        with plugin_source(core_origin()):
            for one in hooks:
                HookRegistry.register(
                    one.spelling, one.hook, one.type, required=one.required, order=one.order,
                    without=one.without, on_failure=one.on_failure,
                )  # fmt: skip
        HookRegistry.apply_hooks()
        HookRegistry.apply_hooks()  # as for a plugin that registers later: nothing is said twice
    except HookError as error:
        ending = {"ending": "refused", "said": str(error)}
    else:
        ending = {"ending": "served", "plain": refused(plain())}
        register_model("InventedForCausalLM", "invented:InventedForCausalLM")
        ending["used"] = refused(everything_used())
        architectures.clear()
    states = [row["state"] for row in HookRegistry.report()]
    ending |= {"states": states, "warnings": list(log.lines)}
    HookRegistry.reset()
    return ending


def refused(launch: LaunchSettings) -> str | None:
    try:
        check_launch(launch)
    except LaunchRefused as refusal:
        return str(refusal)
    return None


def main() -> None:
    log = Warnings()
    logging.getLogger("sglang_platform").addHandler(log)
    platform: Any = type("Hosted", (ExampleOOTPlatform,), {REBASED_MARK: True})()
    with HookRegistry.collecting() as hooks:
        all_hooks.register_hooks(platform, facts())
        llm_counts.register_hooks()
        platform.init_backend()
        register_fused_ops(platform.get_dispatch_key_name())
    # One module imports a package of CUDA's, which the adapter lends it when drafts are served.
    lent = ("sgl_kernel", "sgl_kernel.speculative")
    lenders = [one for one in hooks if one.spelling.partition(":")[0].endswith(".reconstruct_tree")]
    for one in (*(one for one in hooks if one not in lenders), *lenders):
        if one in lenders:
            sys.modules.update({name: AbsentModule(name) for name in lent})
        importlib.import_module(one.spelling.partition(":")[0])
    HookRegistry.reset()  # SGLang has loaded plugins when its modules were imported
    answers = {"": applied(hooks, log)}
    for key in dict.fromkeys(one.key for one in hooks):
        same = [one for one in hooks if one.key == key]
        with gone(same[0].spelling):
            answers[key] = applied(same, log)
    print(json.dumps(answers))


main()
