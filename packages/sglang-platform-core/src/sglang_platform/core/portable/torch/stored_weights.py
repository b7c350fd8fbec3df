"""Dequantises the weights of quantised checkpoints.

One record per format: which tensors hold a weight, and how to compute it from them. A device without kernels for a
format serves such a checkpoint with dequantised weights in the model's own dtype: memory and speed are those of the
unquantised model.

Formats: fp8 with a scale per tensor, per channel or per block (DeepSeek-V3 report, section 3.3); AWQ (Lin et al. 2023),
in its `gemm` layout; GPTQ (Frantar et al. 2022) of 2, 4 and 8 bits, with and without activation order;
compressed-tensors with 8-bit integers, fp8 and packed integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from sglang_platform.core.portable.torch.packed_integers import AWQ_ORDER, unpack

__all__ = ["CannotRead", "StoredWeights", "dequantised", "stored_weights"]

Parts = Mapping[str, torch.Tensor]


class CannotRead(ValueError):
    """The checkpoint's format has no reader here; the message says which part of it."""


@dataclass(frozen=True)
class StoredWeights:
    """How a format keeps the weight of a module."""

    parts: frozenset[str]
    """The names of the tensors in the module, all of them required."""

    join: Callable[[Parts], torch.Tensor]
    """Makes the weight [out, in], float32."""

    dropped: frozenset[str] = frozenset()
    """Names of tensors that only a kernel for the format needs."""


def dequantised(
    weights: Iterable[tuple[str, torch.Tensor]], stored: StoredWeights, dtype: torch.dtype
) -> Iterator[tuple[str, torch.Tensor]]:
    """`weights` by name with each stored weight as one tensor `<module>.weight` of `dtype`, all else as it is.

    Raises CannotRead for a quantised tensor that the format does not cover, rather than yield it as a plain weight.
    """
    held: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in weights:
        module, _, part = name.rpartition(".")
        if part in stored.dropped:
            continue
        if part not in stored.parts or (part == "weight" and not _is_quantised(tensor)):
            if _is_quantised(tensor):
                raise CannotRead(f"the tensor {name} is {tensor.dtype}, and no scale belongs to it")
            yield name, tensor
            continue
        parts = held.setdefault(module, {})
        parts[part] = tensor
        if stored.parts == parts.keys():
            yield f"{module}.weight", stored.join(held.pop(module)).to(dtype)
    if held:
        module, found = next(iter(held.items()))
        raise CannotRead(f"of the weight of {module} there is no {', '.join(stored.parts - found.keys())}")


def _is_quantised(tensor: torch.Tensor) -> bool:
    return tensor.dtype == torch.int8 or str(tensor.dtype).startswith("torch.float8")


def stored_weights(config: Mapping[str, Any]) -> StoredWeights:
    """The format that a checkpoint's `quantization_config` describes. Raises CannotRead for a format without a
    reader."""
    method = str(config.get("quant_method", "")).lower().replace("_", "-")
    reader = _READERS.get(method)
    if reader is None:
        raise CannotRead(
            f"its quantisation method is {method!r}, and there are readers for {', '.join(_READERS)}"
        )
    return reader(config)


def _fp8(config: Mapping[str, Any]) -> StoredWeights:
    if config.get("routed_experts_quant_method") or config.get("store_dtype"):
        raise CannotRead("its experts are of another format than its other layers")
    block = config.get("weight_block_size")
    scale = "weight_scale" if block is None else "weight_scale_inv"
    return _scaled(scale, block, dropped=frozenset({"input_scale", "activation_scale"}))


def _scaled(scale: str, block: Any, *, dropped: frozenset[str], zero: str | None = None) -> StoredWeights:
    def join(parts: Parts) -> torch.Tensor:
        weight = parts["weight"].float()
        if zero is not None:
            weight = weight - parts[zero].float()
        factor = parts[scale].float()
        if block is not None:
            for dim, size in zip((-2, -1), block, strict=True):
                factor = factor.repeat_interleave(size, dim=dim).narrow(dim, 0, weight.shape[dim])
        return weight * factor

    names = {"weight", scale} if zero is None else {"weight", scale, zero}
    return StoredWeights(frozenset(names), join, dropped)


def _awq(config: Mapping[str, Any]) -> StoredWeights:
    bits, layout = config.get("bits", config.get("w_bit")), str(config.get("version", "gemm")).lower()
    if bits != 4 or layout != "gemm":
        raise CannotRead(
            f"its AWQ weights are of {bits} bits in the layout {layout!r}; read are 4 bits in 'gemm'"
        )

    def join(parts: Parts) -> torch.Tensor:
        values, zeros = (unpack(parts[part], 4, dim=1, order=AWQ_ORDER) for part in ("qweight", "qzeros"))
        groups = torch.arange(values.shape[0]) * zeros.shape[0] // values.shape[0]
        return ((values - zeros[groups]) * parts["scales"].float()[groups]).T.contiguous()

    return StoredWeights(frozenset({"qweight", "qzeros", "scales"}), join)


def _gptq(config: Mapping[str, Any]) -> StoredWeights:
    bits, layout = config.get("bits"), str(config.get("checkpoint_format") or "gptq").lower()
    if bits not in (2, 4, 8) or layout not in ("gptq", "gptq_v2"):
        raise CannotRead(
            f"its GPTQ weights are of {bits} bits in the layout {layout!r}; read are 2, 4 and 8 bits in 'gptq' and "
            "'gptq_v2'"
        )
    one_less = 1 if layout == "gptq" else 0
    in_order = not config.get("desc_act")

    def join(parts: Parts) -> torch.Tensor:
        values = unpack(parts["qweight"], bits, dim=0)
        # The older layout stores each zero point minus one, with wrap-around.
        zeros = (unpack(parts["qzeros"], bits, dim=1) + one_less) & (2**bits - 1)
        rows = torch.arange(values.shape[0])
        groups = rows * zeros.shape[0] // values.shape[0] if in_order else parts["g_idx"].long()
        return ((values - zeros[groups]) * parts["scales"].float()[groups]).T.contiguous()

    parts, dropped = {"qweight", "qzeros", "scales"}, {"g_idx"}
    if not in_order:
        parts, dropped = parts | dropped, set()
    return StoredWeights(frozenset(parts), join, frozenset(dropped))


def _compressed(config: Mapping[str, Any]) -> StoredWeights:
    groups = list((config.get("config_groups") or {}).values())
    formats = {group.get("format") or config.get("format") for group in groups}
    schemes = [group.get("weights") or {} for group in groups]
    described = {(s.get("num_bits"), s.get("type"), s.get("symmetric"), s.get("strategy")) for s in schemes}
    if len(formats) != 1 or len(described) != 1:
        raise CannotRead("it keeps weights of different kinds, or says nothing of them")
    ((bits, _, symmetric, _),) = described
    (layout,) = formats
    unused = frozenset({"input_scale", "input_zero_point", "weight_g_idx"})
    zero = None if symmetric else "weight_zero_point"
    if layout in ("int-quantized", "float-quantized", "naive-quantized"):
        block = schemes[0].get("block_structure") if schemes[0].get("strategy") == "block" else None
        return _scaled("weight_scale", block, dropped=unused | {"weight_shape"}, zero=zero)
    if layout == "pack-quantized" and bits in (4, 8) and not schemes[0].get("actorder"):
        return _packed(bits, zero, unused)
    raise CannotRead(f"its weights are {bits} bits in the format {layout!r}")


def _packed(bits: int, zero: str | None, dropped: frozenset[str]) -> StoredWeights:
    def join(parts: Parts) -> torch.Tensor:
        rows, columns = parts["weight_shape"].tolist()
        # Values and zero points are stored with an offset that makes them unsigned.
        values = unpack(parts["weight_packed"], bits, dim=1)[:, :columns]
        scale = parts["weight_scale"].float()
        if zero is None:
            zeros = torch.full_like(scale, 2 ** (bits - 1))
        else:
            zeros = unpack(parts[zero], bits, dim=0)[:rows].float()
        groups = torch.arange(columns) * scale.shape[1] // columns
        return (values - zeros[:, groups]) * scale[:, groups]

    names = {"weight_packed", "weight_scale", "weight_shape"} | ({zero} if zero else set())
    return StoredWeights(frozenset(names), join, dropped)


def _int8(config: Mapping[str, Any]) -> StoredWeights:
    block = config.get("weight_block_size")
    return _scaled("weight_scale" if block is None else "weight_scale_inv", block, dropped=frozenset())


_READERS: Mapping[str, Callable[[Mapping[str, Any]], StoredWeights]] = {
    "fp8": _fp8,
    "w8a8-fp8": _fp8,
    "w8a8-int8": _int8,
    "blockwise-int8": _int8,
    "awq": _awq,
    "gptq": _gptq,
    "compressed-tensors": _compressed,
}
