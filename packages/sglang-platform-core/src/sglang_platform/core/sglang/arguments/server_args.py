"""SGLang's server arguments: the operator's values, the platform's defaults, and the platform's final changes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.arguments.check import (
    check_arguments,
    check_default_attention,
    check_default_lora,
    check_memory,
)
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.registration import LaunchSettings, check_launch, required, soft
from sglang_platform.core.sglang.served_model import resolved
from sglang_platform.core.sglang.versions import HostFacts, facts

__all__ = [
    "ATTENTION_FIELDS",
    "PORTABLE",
    "asked_for",
    "choose_attention_backend",
    "register_hooks",
    "register_rule",
]

ATTENTION_FIELDS = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")
_NAMES_BACKENDS = {"GptOssForCausalLM": "sinks"}
"""Models for which SGLang asserts that the attention backend is in its list, and the feature they need."""

PORTABLE = "portable_torch"
"""Core's attention in plain torch, as a choice of an out-of-tree device without attention of its own."""

_KEPT = "_sglang_platform_asked_for"
_NO_LAST_WORD = "the platform does not check or change the server arguments"


def asked_for(server_args: Any, field: str) -> Any:
    """The value that the operator gave for `field`, or None.

    The raw input is kept beside the resolved values, by SGLang or by a hook of ours.
    """
    raw = getattr(server_args, "_raw_input" if facts().keeps_raw_arguments else _KEPT, None)
    return raw.get(field) if isinstance(raw, dict) else getattr(server_args, field, None)


def choose_attention_backend(server_args: Any, default: str) -> None:
    """Make `default` the attention backend unless the operator named one.

    Needed because on device type "cpu" SGLang fills in its own backend before it asks the platform.
    """
    if not any(asked_for(server_args, field) for field in ATTENTION_FIELDS):
        server_args.attention_backend = default


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Let the platform change arguments after SGLang has resolved all of them, in the process that resolves them.

    Child processes receive the finished record. If SGLang keeps the raw input in it, our assignments are declared like
    those of SGLang's own rules, so that its resolved view includes them.
    """
    target = host.finished_arguments
    if not host.keeps_raw_arguments:
        required(target, _keep_input, HookType.BEFORE, without="the operator's attention backend is not told")

    def check_first(server_args: Any, *args: Any, **kwargs: Any) -> None:
        check_launch(LaunchSettings(server_args))
        if platform.is_out_of_tree() and not _resolves_nothing(server_args):
            check_memory(platform)

    required(target, check_first, HookType.BEFORE, without=_NO_LAST_WORD)

    def finalize(server_args: Any) -> None:
        _check_device(server_args, platform)
        platform.finalize_server_args(server_args)

    register_rule(platform, host, finalize)

    def settle_model(original: Any, server_args: Any) -> None:
        try:
            original(server_args)
        except AssertionError as refused:
            _settle_as_a_named_backend(original, server_args, platform, refused)

    soft(
        host.settles_model, settle_model, HookType.AROUND,
        without="SGLang refuses the platform's attention backend for models of its list (gpt-oss)",
    )  # fmt: skip

    def check(result: Any, server_args: Any, *args: Any, **kwargs: Any) -> None:
        if not _resolves_nothing(server_args):
            asked = [(field, asked_for(server_args, field)) for field in ATTENTION_FIELDS]
            if platform.is_out_of_tree() and not any(name for _, name in asked):
                check_default_attention(platform)
            settled = resolved(server_args)
            if platform.is_out_of_tree() and settled.enable_lora:
                check_default_lora(settled, platform)
            check_launch(LaunchSettings(settled))
            check_arguments(settled, platform, [(field, name) for field, name in asked if name])

    required(target, check, HookType.AFTER, without=_NO_LAST_WORD)


def register_rule(platform: Any, host: HostFacts, rule: Callable[[Any], None]) -> None:
    """Call `rule(server_args)` after SGLang has resolved every argument, in the process that resolves them.

    The rule reads resolved values, and its assignments are final. Rules run in the order of registration, the
    platform's `finalize_server_args` first. LaunchRefused from a rule stops the launch before any worker starts.
    """

    def apply(result: Any, server_args: Any, *args: Any, **kwargs: Any) -> None:
        if not _resolves_nothing(server_args):
            _assign(server_args, platform, rule)

    required(host.finished_arguments, apply, HookType.AFTER, without=_NO_LAST_WORD)


def _assign(server_args: Any, platform: Any, rule: Callable[[Any], None]) -> None:
    if facts().keeps_raw_arguments:
        load(facts().declares_arguments)(server_args, f"platform:{platform.device_name}", rule)
    else:
        with _writable(server_args):
            rule(server_args)


def _settle_as_a_named_backend(
    settle: Callable[[Any], None], server_args: Any, platform: Any, refused: AssertionError
) -> None:
    """Run `settle` as if the backend were `triton`, which SGLang's list for this model has, and restore the names.

    Raises `refused` unless the platform's backend has the feature that the model needs.
    """
    needs = next((feature for model, feature in _NAMES_BACKENDS.items() if model in str(refused)), None)
    view, backends = resolved(server_args), platform.get_attention_backends()
    own = {field: getattr(view, field) for field in ATTENTION_FIELDS if getattr(view, field) in backends}
    if not own or (needs not in platform.attention_features and PORTABLE not in backends):
        raise refused

    def name(record: Any, triton: bool) -> None:
        for field, value in own.items():
            setattr(record, field, "triton" if triton else value)

    _assign(server_args, platform, functools.partial(name, triton=True))
    settle(server_args)
    _assign(server_args, platform, functools.partial(name, triton=False))


def _resolves_nothing(server_args: Any) -> bool:
    """Whether the record has no model: SGLang then resolves no arguments."""
    return str(getattr(server_args, "model_path", "")).lower() in ("none", "dummy")


def _check_device(server_args: Any, platform: Any) -> None:
    """Raise LaunchRefused for `--device` of another type: SGLang would serve there without the platform's parts."""
    device = getattr(server_args, "device", None)
    if not device or str(device).partition(":")[0] == platform.device_type:
        return
    name = platform.device_name
    raise LaunchRefused(
        f"the engine is to run on device {str(device)!r}, and the platform {name!r} is of {platform.device_type!r}",
        plugin=getattr(platform, "_plugin_origin", None),
        why=f"server_args.device is {str(device)!r}: with it SGLang would leave the platform's parts aside",
        fix=f"leave out --device, or give --device {platform.device_type}; or do not choose the platform {name!r}",
    )


def _keep_input(server_args: Any, *args: Any, **kwargs: Any) -> None:
    setattr(server_args, _KEPT, {field: getattr(server_args, field, None) for field in ATTENTION_FIELDS})


@contextlib.contextmanager
def _writable(server_args: Any) -> Iterator[None]:
    """While active, a resolved record that is read-only accepts writes, through SGLang's internal flag."""
    locked = getattr(server_args, "_declarations_materialized", False)
    if locked:
        object.__setattr__(server_args, "_internal_write", True)
    try:
        yield
    finally:
        if locked:
            object.__setattr__(server_args, "_internal_write", False)
