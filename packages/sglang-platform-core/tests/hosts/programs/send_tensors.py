"""Tensors of the example's device through SGLang's serializer, before and after its weight updates, and through its
sockets, as JSON.

    SGLANG_PLATFORM=example_oot send_tensors.py

For each case: the device types that arrived, and whether the values, strides and views are those that were sent.
"""

# ruff: noqa: E402 -- each import stands where the check first needs it

import io
import json
import pickle
from collections.abc import Callable

import sglang.srt.server_args  # noqa: F401

from sglang_platform.core import current_platform as platform

platform.init_backend()

import torch
from sglang.srt.utils import MultiprocessingSerializer
from sglang.srt.utils.common import safe_pickle_load
from sglang.srt.utils.patch_torch import monkey_patch_torch_reductions

x = torch.arange(6.0, device=platform.get_device(0)).view(2, 3)
CASES = {
    "a tensor": x,
    "a transposed one": x.t(),
    "weights by name": [("w", x), ("b", x[1])],
    "a parameter": torch.nn.Parameter(x.clone()),
    "a type of 8 bits": x.to(torch.float8_e4m3fn),
    "no elements": x[:0],
    "a tensor of the CPU": x.cpu(),
    "a dict of both": {"device": x, "cpu": x.cpu()},
}


def leaves(value: object) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for one in value for leaf in leaves(one)] if isinstance(value, (list, tuple)) else []


def same(sent: torch.Tensor, got: torch.Tensor) -> bool:
    facts = [
        (type(t), t.dtype, t.shape, t.stride(), t.device, t.requires_grad, t.detach().cpu().float().tolist())
        for t in (sent, got)
    ]
    return facts[0] == facts[1]


def through_a_socket(value: object) -> object:
    """As the tokenizer sends a multimodal input to the scheduler."""
    return safe_pickle_load(io.BytesIO(pickle.dumps(value)))


def serialized(value: object) -> object:
    return MultiprocessingSerializer.deserialize(MultiprocessingSerializer.serialize(value))


def outcome(value: object, send: Callable[[object], object]) -> object:
    try:
        got = send(value)
    except Exception as error:  # noqa: BLE001  # whatever torch or SGLang says
        return f"{type(error).__name__}: {error}"
    return all(map(same, leaves(value), leaves(got)))


found = {
    # Torch pickles no type of 8 bits, on any device.
    "socket": {n: outcome(value, through_a_socket) for n, value in CASES.items() if "8 bits" not in n},
    "before": {name: outcome(value, serialized) for name, value in CASES.items()},
}
monkey_patch_torch_reductions()
found["after"] = {name: outcome(value, serialized) for name, value in CASES.items()}
print(json.dumps(found))
