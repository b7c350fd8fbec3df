"""Weights of quantised checkpoints, read back: against the numbers taken out of the words one by one in Python."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_platform.core.portable.torch.stored_weights import (
    CannotRead,
    dequantised,
    stored_weights,
)

_FEW = settings(deadline=None, max_examples=40)


def _word(values: list[int], bits: int, places: list[int]) -> int:
    word = sum(value << (bits * place) for value, place in zip(values, places, strict=True))
    return word - 2**32 if word >= 2**31 else word


def _one(described: dict[str, Any], **parts: torch.Tensor) -> torch.Tensor:
    stream = [(f"model.layer.{name}", tensor) for name, tensor in parts.items()]
    random.Random(0).shuffle(stream)
    ((name, weight),) = dequantised(stream, stored_weights(described), torch.float32)
    assert name == "model.layer.weight"
    return weight


@_FEW
@given(st.data(), st.integers(1, 3), st.integers(1, 3))
def test_awq(data: st.DataObject, words: int, groups: int) -> None:
    size, outs = 4, 8 * words
    ins = size * groups
    digit = st.integers(0, 15)
    values = [[data.draw(digit) for _ in range(outs)] for _ in range(ins)]
    zeros = [[data.draw(digit) for _ in range(outs)] for _ in range(groups)]
    scale = torch.rand(groups, outs) + 0.1
    # The order that AutoAWQ's packer writes: column order[i] of each eight goes to place i.
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def pack(row: list[int]) -> list[int]:
        return [_word([row[at + c] for c in order], 4, list(range(8))) for at in range(0, outs, 8)]

    weight = _one(
        {"quant_method": "awq", "bits": 4, "group_size": size},
        qweight=torch.tensor([pack(row) for row in values], dtype=torch.int32),
        qzeros=torch.tensor([pack(row) for row in zeros], dtype=torch.int32),
        scales=scale,
    )
    for out in range(outs):
        for i in range(ins):
            wanted = (values[i][out] - zeros[i // size][out]) * scale[i // size, out].item()
            assert weight[out, i].item() == pytest.approx(wanted, rel=1e-6)


@_FEW
@given(st.data(), st.sampled_from([2, 4, 8]), st.booleans(), st.booleans())
def test_gptq(data: st.DataObject, bits: int, newer: bool, by_activation: bool) -> None:
    per_word = 32 // bits
    outs, groups = per_word * 2, 2
    ins = per_word * groups
    values = [[data.draw(st.integers(0, 2**bits - 1)) for _ in range(outs)] for _ in range(ins)]
    zeros = [[data.draw(st.integers(1, 2**bits)) for _ in range(outs)] for _ in range(groups)]
    if newer:
        zeros = [[zero - 1 for zero in row] for row in zeros]
    scale = torch.rand(groups, outs) + 0.1
    of_group = [i // per_word for i in range(ins)]
    if by_activation:
        of_group = data.draw(st.permutations(of_group))
    places = list(range(per_word))
    kept = [[(zero if newer else zero - 1) % 2**bits for zero in row] for row in zeros]
    weight = _one(
        {
            "quant_method": "gptq",
            "bits": bits,
            "desc_act": by_activation,
            "checkpoint_format": "gptq_v2" if newer else "gptq",
        },
        qweight=torch.tensor(
            [
                [_word([values[at + p][out] for p in places], bits, places) for out in range(outs)]
                for at in range(0, ins, per_word)
            ],
            dtype=torch.int32,
        ),
        qzeros=torch.tensor(
            [
                [_word(row[at : at + per_word], bits, places) for at in range(0, outs, per_word)]
                for row in kept
            ],
            dtype=torch.int32,
        ),
        scales=scale,
        g_idx=torch.tensor(of_group, dtype=torch.int32),
    )
    for out in range(outs):
        for i in range(ins):
            group = of_group[i]
            zero = zeros[group][out] % 2**bits
            wanted = (values[i][out] - zero) * scale[group, out].item()
            assert weight[out, i].item() == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("shape", [(5, 7), (4, 8), (3, 5, 7)])
def test_fp8_in_blocks(shape: tuple[int, ...]) -> None:
    stored = torch.randn(shape).to(torch.float8_e4m3fn)
    scale = torch.rand(*shape[:-2], -(-shape[-2] // 2), -(-shape[-1] // 4))
    weight = _one({"quant_method": "fp8", "weight_block_size": [2, 4]}, weight=stored, weight_scale_inv=scale)
    for row in range(shape[-2]):
        for column in range(shape[-1]):
            wanted = stored[..., row, column].float() * scale[..., row // 2, column // 4]
            assert torch.equal(weight[..., row, column], wanted)


def test_fp8_with_one_scale() -> None:
    stored = torch.randn(4, 3).to(torch.float8_e4m3fn)
    parts = {"weight": stored, "weight_scale": torch.tensor(0.5), "input_scale": torch.tensor(3.0)}
    assert torch.equal(_one({"quant_method": "fp8"}, **parts), stored.float() * 0.5)


@pytest.mark.sample(2)
@pytest.mark.parametrize("symmetric", [True, False])
def test_packed_integers_as_compressed_tensors_packs_them(symmetric: bool) -> None:
    helpers = pytest.importorskip("compressed_tensors.compressors.pack_quantized.helpers")
    torch.manual_seed(0)
    rows, columns, group = 8, 24, 8
    values = torch.randint(-8, 8, (rows, columns), dtype=torch.int8)
    zeros = torch.zeros(rows, columns // group, dtype=torch.int8)
    scale = torch.rand(rows, columns // group)
    parts = {
        "weight_packed": helpers.pack_to_int32(values, 4),
        "weight_scale": scale,
        "weight_shape": torch.tensor([rows, columns]),
    }
    if not symmetric:
        zeros = torch.randint(-8, 8, zeros.shape, dtype=torch.int8)
        parts["weight_zero_point"] = helpers.pack_to_int32(zeros, 4, packed_dim=0)
    described = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {
            "group_0": {
                "weights": {"num_bits": 4, "type": "int", "symmetric": symmetric, "group_size": group}
            }
        },
    }
    wide = [m.float().repeat_interleave(group, dim=1) for m in (zeros, scale)]
    torch.testing.assert_close(_one(described, **parts), (values - wide[0]) * wide[1])


def test_what_is_not_quantised_passes_as_it_is() -> None:
    plain, bias = torch.randn(2, 2), torch.randn(2)
    stream = {"a.weight": plain, "a.bias": bias, "a.k_scale": torch.tensor(1.0)}
    passed = dict(dequantised(stream.items(), stored_weights({"quant_method": "fp8"}), torch.float32))
    assert passed.keys() == stream.keys()
    assert passed["a.weight"] is plain


@pytest.mark.parametrize(
    ("described", "word"),
    [
        ({"quant_method": "bitsandbytes"}, "bitsandbytes"),
        ({"quant_method": "awq", "bits": 4, "version": "gemv"}, "gemv"),
        ({"quant_method": "gptq", "bits": 3}, "3 bits"),
        ({"quant_method": "fp8", "routed_experts_quant_method": "mxfp4"}, "experts"),
        (
            {
                "quant_method": "compressed-tensors",
                "format": "nvfp4-pack-quantized",
                "config_groups": {"group_0": {"weights": {"num_bits": 4}}},
            },
            "nvfp4-pack-quantized",
        ),
    ],
)
def test_a_format_without_a_reader_is_told(described: dict[str, Any], word: str) -> None:
    with pytest.raises(CannotRead, match=word):
        stored_weights(described)


def test_a_number_without_its_scale_never_passes_for_a_weight() -> None:
    fp8 = stored_weights({"quant_method": "fp8", "weight_block_size": [128, 128]})
    eight_bit = torch.empty(0, dtype=torch.float8_e4m3fn)
    with pytest.raises(CannotRead, match=r"a\.b there is no weight_scale_inv"):
        list(dequantised([("a.b.weight", eight_bit)], fp8, torch.float32))
    with pytest.raises(CannotRead, match="experts"):
        list(dequantised([("a.experts.gate_up_proj", eight_bit)], fp8, torch.float32))
