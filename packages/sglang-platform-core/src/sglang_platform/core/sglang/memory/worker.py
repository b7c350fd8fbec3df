"""The device tensors of this worker's model runners, for the memory saver and for disaggregation."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.host_classes import MODEL_RUNNER
from sglang_platform.core.sglang.registration import Feature, LaunchSettings, only_for

__all__ = ["cache", "device_type", "register_hooks", "runners", "weights"]

_runners: list[Any] = []


def _is_read(launch: LaunchSettings) -> bool:
    given = launch.arguments
    return given is not None and (given.disaggregation_mode != "null" or bool(given.enable_memory_saver))


_READERS = Feature("--enable-memory-saver or --disaggregation-mode", _is_read)


def register_hooks(platform: Any) -> None:
    """Record each model runner (the target's, and a draft's if there is one) once it has loaded its model."""
    if platform.device_type == "cuda" or not platform.is_out_of_tree():
        return

    def loaded(result: Any, runner: Any, *args: Any, **kwargs: Any) -> None:
        if all(known is not runner for known in _runners):
            _runners.append(runner)

    only_for(_READERS, f"{MODEL_RUNNER}.load_model", loaded, HookType.AFTER)


def runners() -> tuple[Any, ...]:
    """The model runners of this worker, in the order in which they loaded."""
    return tuple(_runners)


def device_type(runner: Any) -> str:
    import torch  # every worker has it by now; the launcher does not

    return str(torch.device(runner.device).type)


def weights() -> list[Any]:
    """Parameters and buffers of the models that lie on the device."""
    return [
        tensor
        for runner in _runners
        for tensor in (*runner.model.parameters(), *runner.model.buffers())
        if tensor.device.type == device_type(runner)
    ]


def cache() -> list[Any]:
    """All tensors of rows in the KV pools on the device, including those of nested pools."""
    found: dict[int, Any] = {}
    for runner in _runners:
        pools = [runner.token_to_kv_pool]
        while pools:
            pool = pools.pop()
            for value in vars(pool).values():
                for one in value if isinstance(value, list | tuple) else [value]:
                    if _is_rows(one, device_type(runner)):
                        found[id(one)] = one
                    elif hasattr(one, "get_key_buffer") and one is not pool:
                        pools.append(one)
    return list(found.values())


def _is_rows(value: Any, type_: str) -> bool:
    import torch  # as above

    # Rows have two dimensions or more; tables of addresses and strides beside them have one.
    return isinstance(value, torch.Tensor) and value.device.type == type_ and value.dim() > 1
