"""Sends tensors of the device to a process that it spawns, and tells how they arrived.

Given: `name`, `location`, `host`, of the platform that both processes come to.
"""

from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

from sglang_platform.conformance.probes import tell
from sglang_platform.conformance.probes.processes import come_to_the_platform, name_the_platform

__all__: list[str] = []

_SECONDS = 90

# Imports inside functions: the platform comes before torch, as in a process of the host.


def _values(platform: Any) -> dict[str, Any]:
    import torch

    from sglang_platform.conformance.fixtures.sent_values import values_on

    device = torch.device(platform.get_device(0))
    named: dict[str, Any] = {
        f"a tensor of {one.dtype}, shape {tuple(one.shape)}, strides {one.stride()}": one
        for one in values_on(device)
    }
    return named


def _receive(given: dict[str, Any], incoming: Any, outgoing: Any) -> None:
    from sglang_platform.conformance.fixtures.sent_values import same_tensor

    wanted = _values(_opened(given))
    outgoing.put("ready")
    for _ in range(len(wanted)):
        name, sent = incoming.get()
        try:
            outgoing.put(
                (name, {} if sent is None else {"wrong": same_tensor(wanted[name], pickle.loads(sent))})
            )
        except Exception as error:  # noqa: BLE001 - told to the sender
            outgoing.put((name, _refusal(error)))


def _refusal(error: Exception) -> dict[str, Any]:
    return {"refused": str(error), "kind": type(error).__name__}


def _opened(given: dict[str, Any]) -> Any:
    platform = come_to_the_platform(given["host"])
    platform.init_backend()
    return platform


def send(given: dict[str, Any]) -> dict[str, Any]:
    """How each value arrived, by name."""
    values = _values(_opened(given))
    import torch.multiprocessing

    context = torch.multiprocessing.get_context("spawn")
    outgoing, incoming = context.Queue(), context.Queue()
    process = context.Process(target=_receive, args=(given, outgoing, incoming), daemon=True)
    process.start()
    rows: dict[str, Any] = {}
    incoming.get(timeout=_SECONDS)
    for name, value in values.items():
        try:
            sent = bytes(ForkingPickler.dumps(value))
        except Exception as error:  # noqa: BLE001 - this is the answer
            rows[name], sent = _refusal(error), None
        outgoing.put((name, sent))
        _, told = incoming.get(timeout=_SECONDS)
        rows.setdefault(name, told)
    process.join(10)
    return {"rows": rows}


def look(given: dict[str, Any]) -> dict[str, Any]:
    name_the_platform(given)
    try:
        return send(given)
    except Exception as error:  # noqa: BLE001 - told to the check
        return {"raised": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    tell(look)
