"""Refuses or delays control requests that would crash SGLang's workers.

SGLang's workers crash on a control request that they cannot fulfil. Only an idle worker can release memory, and a
worker becomes idle one step after its last answer, so even a client that waited may send its release too early. We
delay the release until the worker is idle, and later generation requests until memory is resumed: a forward over
released memory crashes the worker. Resuming memory that was not released crashes it, too. SGLang 0.5.11 to 0.5.23:
`managers/scheduler.py` and the module of `facts().weight_updater`.
"""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.host_classes import SCHEDULER, load
from sglang_platform.core.sglang.registration import losing_fields, soft
from sglang_platform.core.sglang.served_model import resolved
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_MANAGER = "sglang.srt.managers.tokenizer_manager:TokenizerManager"
_RELEASE = "ReleaseMemoryOccupationReqInput"
_HELD, _LATER = "_sglang_platform_held", "_sglang_platform_later"
_FORWARDS = ("TokenizedGenerate", "TokenizedEmbedding", "BatchTokenized")
_OUT_OF_TURN = "requests to release memory, and requests while it is released, may end the server"
_RECORDS = ("start", "stop", "dump")


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Check control requests, on every platform of ours."""
    soft(
        f"{_MANAGER}.update_weights_from_disk", _check_load_format, HookType.BEFORE,
        without="/update_weights_from_disk with an unknown load_format ends the server",
    )  # fmt: skip
    for verb in _RECORDS:
        soft(
            f"{_MANAGER}.{verb}_expert_distribution_record", _check_recorder, HookType.BEFORE,
            without=f"/{verb}_expert_distribution_record ends a server that records none",
        )  # fmt: skip
    soft(
        f"{host.weight_updater}.resume_memory_occupation", _resume_released, HookType.AROUND,
        without="/resume_memory_occupation of what was not released ends the server",
    )  # fmt: skip

    def in_turn(original: Any, scheduler: Any, requests: Any, *args: Any, **kwargs: Any) -> Any:
        held: list[Any] = scheduler.__dict__.setdefault(_HELD, [])
        later: list[Any] = scheduler.__dict__.setdefault(_LATER, [])
        if not (requests or held or later):  # most steps
            return original(scheduler, requests, *args, **kwargs)
        released = _released(scheduler, host)
        if released is None:
            return original(scheduler, requests, *args, **kwargs)
        now = []
        for one in requests:
            name = type(one).__name__
            if name == _RELEASE:
                held.append(one)
            elif (held or released) and name.startswith(_FORWARDS):
                later.append(one)
            else:
                now.append(one)
        result = original(scheduler, now, *args, **kwargs)
        if held and _may_release(scheduler, host):
            orders, scheduler.__dict__[_HELD] = held, []
            original(scheduler, orders, *args, **kwargs)
        elif later and not held and not released:
            scheduler.__dict__[_LATER] = []
            original(scheduler, later, *args, **kwargs)
        return result

    soft(
        f"{SCHEDULER}.process_input_requests", in_turn, HookType.AROUND,
        without=_OUT_OF_TURN,
    )  # fmt: skip


def _released(scheduler: Any, host: HostFacts) -> set[str] | None:
    """The tags of memory that the scheduler has released; None if this release of SGLang stores them elsewhere."""
    with losing_fields(_released, without=_OUT_OF_TURN):
        mixed_in = isinstance(scheduler, load(host.weight_updater))
        released: set[str] = (scheduler if mixed_in else scheduler.weight_updater).offload_tags
        return released
    return None


def _may_release(scheduler: Any, host: HostFacts) -> bool:
    """Whether the scheduler is idle enough to release memory; True if this release of SGLang has no such query."""
    with losing_fields(_may_release, without=_OUT_OF_TURN):
        paused = {"ignore_waiting": scheduler._engine_paused} if host.releases_while_paused else {}
        return bool(scheduler.is_fully_idle(**paused))
    return True


def _check_load_format(manager: Any, request: Any, *args: Any, **kwargs: Any) -> None:
    formats = [one.value for one in load("sglang.srt.configs.load_config:LoadFormat")]
    if request.load_format is not None and request.load_format not in formats:
        raise ValueError(f"load_format is {request.load_format!r}; there are {', '.join(formats)}")


def _resume_released(original: Any, updater: Any, recv_req: Any) -> Any:
    """Drop tags that are not released from the request: SGLang's worker would crash on them."""
    released = sorted(updater.offload_tags)
    recv_req.tags = [tag for tag in recv_req.tags or released if tag in released]
    if not recv_req.tags:
        return load("sglang.srt.managers.io_struct:ResumeMemoryOccupationReqOutput")()
    return original(updater, recv_req)


def _check_recorder(manager: Any, *args: Any, **kwargs: Any) -> None:
    if resolved(manager.server_args).expert_distribution_recorder_mode is None:
        raise ValueError(
            "the server records no expert distribution; it does with --expert-distribution-recorder-mode"
        )
