"""The decode kernels of the CUDA and ROCm packages in machine code, and the share of the copy bandwidth they can reach.

`python -m sglang_platform.conformance.kernels.decode_code --table docs/decode_code.md` writes the page. Batch 64, 8192
tokens each: the least of what the performance aims speak of is batch 32 and 4096.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sglang_platform.conformance.kernels.compile import dies
from sglang_platform.conformance.kernels.compile import predict as method
from sglang_platform.conformance.kernels.compile.fake_driver import pretend
from sglang_platform.conformance.kernels.compile.loop import LoopCode, read_loop
from sglang_platform.conformance.kernels.compile.machine_code import MachineCode, read
from sglang_platform.conformance.kernels.compile.predict import DEVICES, DecodeWork, Predicted, predict

__all__ = ["CASES", "TARGETS", "DecodeCode", "compiled", "page", "shares"]

TARGETS = {"sm_90": "cuda", "sm_100": "cuda", "gfx942": "rocm", "gfx950": "rocm"}
"""The architectures, and their packages."""

BATCH, CONTEXT = 64, 8192


@dataclass(frozen=True, kw_only=True)
class _Case:
    """A model's attention. latent: absorbed MLA, whose values are the first `values` columns of the keys. page: tokens
    of a page; more than 1 for the kernels that read whole pages."""

    q_heads: int
    kv_heads: int
    dim: int
    values: int
    fp8: bool = False
    latent: bool = False
    page: int = 1

    def row(self) -> int:
        """Bytes of a token and KV head."""
        return (self.dim if self.latent else self.dim + self.values) * (1 if self.fp8 else 2)


CASES = {
    "GQA bf16": _Case(q_heads=32, kv_heads=8, dim=128, values=128),
    "GQA fp8": _Case(q_heads=32, kv_heads=8, dim=128, values=128, fp8=True),
    "MLA": _Case(q_heads=16, kv_heads=1, dim=576, values=512, latent=True),
    "MLA fp8": _Case(q_heads=16, kv_heads=1, dim=576, values=512, latent=True, fp8=True),
    "MLA 128 heads": _Case(q_heads=128, kv_heads=1, dim=576, values=512, latent=True),
}
CASES |= {f"{name}, whole pages": replace(case, page=64) for name, case in CASES.items()}


@dataclass(frozen=True)
class DecodeCode:
    """One case on one target. per_token: instructions that all warps issue for a token and KV head. predicted: by
    device, for the devices of this target."""

    case: str
    target: str
    warps: int
    code: MachineCode
    loop: LoopCode
    per_token: float
    predicted: dict[str, Predicted]


def compiled(targets: Sequence[str], cases: Sequence[str]) -> Iterator[DecodeCode]:
    """Compiles each case for each target, in a process of the target's own (see `compile.farm`), where the target reads
    whole pages or the case does not."""
    context = multiprocessing.get_context("spawn")
    for target in targets:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            yield from filter(None, pool.map(partial(_compiled, target), cases))


def _compiled(target: str, name: str) -> DecodeCode | None:
    # Here, so that the names of the cases are read without it.
    import torch

    from sglang_platform.core.portable.triton.attention_shapes import split_count

    kernels = f"sglang_platform.{TARGETS[target]}.kernels"
    record: Any = importlib.import_module(f"{kernels}.tuning").ARCHITECTURES[target]
    case = CASES[name]
    kind = {"latent": case.latent, "eight_bit": case.fp8}
    if case.page > 1:
        shape = record.page_shape(case.dim, **kind) if hasattr(record, "page_shape") else None
        if shape is None:
            return None
    else:
        shape = record.decode_shape(case.dim, **kind, float32=False)
    stored = getattr(torch, record.e4m3) if case.fp8 else torch.bfloat16
    k = torch.empty(1 << 21, case.kv_heads, case.dim, dtype=stored)
    v = k[..., : case.values] if case.latent else torch.empty_like(k)
    scale = torch.ones(1) if case.fp8 else None
    with pretend(record) as launched:
        importlib.import_module(f"{kernels}.decode").paged_decode(
            torch.empty(BATCH, case.q_heads, case.dim, dtype=torch.bfloat16), k, v,
            torch.empty(BATCH + 1, CONTEXT, dtype=torch.int32), torch.empty(BATCH, dtype=torch.int64),
            torch.empty(BATCH, dtype=torch.int64),
            torch.empty(BATCH, case.q_heads, case.values, dtype=torch.bfloat16),
            scale=case.dim**-0.5, k_scale=scale, v_scale=scale, page_size=case.page,
        )  # fmt: skip
    decode = next(one for one in launched if one.name == "decode_kernel")
    kernel, warps = decode.kernel, decode.kernel.metadata.num_warps
    y = decode.grid[1]
    splits = split_count(record.processors, shape.waves, BATCH * y, CONTEXT)
    work = DecodeWork(
        turn=shape.block_n * case.row(),
        readers=y // case.kv_heads,
        programs=BATCH * y * splits,
        cache=BATCH * CONTEXT * case.kv_heads * case.row(),
        partial=2 * 4 * BATCH * case.q_heads * case.values * splits if splits > 1 else 0,
    )
    code, loop = read(kernel), read_loop(kernel)
    predicted = {
        device: predict(one, code, loop, warps, work)
        for device, one in DEVICES.items()
        if one.target == target
    }
    per_token = loop.instructions * warps * work.readers / shape.block_n
    return DecodeCode(name, target, warps, code, loop, per_token, predicted)


_HEAD = """# The decode kernels in machine code

Made with Triton {triton} by `python -m sglang_platform.conformance.kernels.decode_code --table docs/decode_code.md`;
no figure here was measured on a device. Batch {batch}, {context} tokens each; MLA with 16 heads, as one of eight ranks
has, and with 128. `conformance/tests/kernels/test_decode_code.py` holds the code to what stands here.

Instructions, matrix instructions, conversions and byte loads are those of one warp in one turn of the loop over the
cache; ahead is how many turns' rows are on their way while one is computed (one more buffer is being read). Per token
are the instructions of all warps that read it, for one KV head. Whole pages: of 64 tokens, on devices that copy them as
they are.

"""

_COLUMNS = ("case", "target", "warps", "registers", "spills", "shared", "instructions", "per token", "matrix", "ahead",
            "conversions", "byte loads")  # fmt: skip

_PREDICTED = """
## Predicted share of the copy bandwidth

{method}

"""

_SHARES = """| case | device | share | instructions issued | in flight | last round | partial results | bound by |
|---|---|---|---|---|---|---|---|"""

_SHORT = """

On NVIDIA codes of 8 bits are widened to float16, which is exact. Rows are loaded two columns at a time, which takes one
permutation for four codes and a conversion for two, and no load of a byte. Before, with a load of a byte for each code
of a value, a turn took 731 instructions on sm_90 for GQA and 757 for half of the tokens with MLA, and the shares on
H200 were 0.88 and 0.45.

Where pages are of 64 tokens or more, sm_90, sm_100 and sm_103 read them whole
(`sglang_platform.cuda.kernels.whole_pages`): one thread has the device's copy unit (TMA) bring the rows of a block,
where a gather takes an address for every 16 bytes and a slot for every row, and no token of a block is masked. By the
model the share of MLA with 128 heads on H200 goes from 0.42 to 0.53; the other cases are bound by something else, and
issue less. Not in the model: the tokens behind the last whole block, which are gathered 16 at a time, and up to three
descriptors that a launch makes on the host, which the replay of a graph does not.

On gfx942 and gfx950 the scores are products of the codes as they are, in the formats that the matrix cores know. Such a
product would round the queries to four bits; but a bfloat16 is the sum of two 8-bit floats of four bits each, and both
are multiplied, for the price of one product in 16 bits. Values are widened to float16: their products need the tokens
of a column side by side, which 8-bit rows do not have. Before, with keys widened too, a turn took 737 instructions on
gfx942 for GQA and 647 for half of the tokens with MLA, and the shares on MI300X were 0.62 and 0.35.

On gfx950 the values of MLA are multiplied as codes too: its LDS hands the tokens of a column to the matrix cores side
by side. Weights are the sum of two 8-bit floats, as queries are, and relative to the largest of their block of tokens,
so that what is lost, below 2^-18 of it, does not grow with the context. Before, with values widened, a turn took 407
instructions with 36 conversions and 64 loads of a byte (with Triton 3.6 it took 521, now 417; with 3.8 430, now 300).
With GQA, whose values are loaded beside the keys, the same takes 350 instructions instead of 355 with 3.7 but 340
instead of 309 with 3.8, so it is left out there.

Under 0.90, and why: with 128 heads MLA has more than one program for the same rows: an accumulator of 64 heads (NVIDIA)
or 16 (AMD) by 512 columns fills the registers. MLA on gfx942 writes partial results of nine splits.

What the arithmetic alone allows with 128 heads: 2 * 128 * (576 + 512) = 278,528 operations for the 1152 bytes of a
token, 242 for a byte. The matrix units of an H200 do 4096 in a clock and processor, 221 for each byte copied at the
clock above: 0.91 of the bandwidth is all that any bfloat16 kernel can reach. The kernel's turn of 32 tokens and 64
heads needs 1088 clocks of them, and by the model 2069 to issue 776 instructions of 8 warps: what binds is issue, not
the products; over whole pages 1635 to issue 613. An MI300X does 2048, 319 for a byte, so its products do not bind: a
turn of 16 tokens and 16 heads needs 272 clocks of them, and 1707 to issue 320 instructions of 4 waves."""


_DIES = """
## Programs that share rows, on the dies of MI300X

{method}

`sglang_platform.core.portable.triton.kernels.die_order` lays such programs on one die where there are several: query
heads of one KV head that are more than a program takes (decode of MLA with 128 heads, sparse decode), and the blocks of
new tokens of one request (extend, where the KV heads are a multiple of the dies: then each die has as much of every
request). "In turn" is the order of the grid, as on other devices. For a batch in parts the grid has room for twice as
many parts as requests, less one; 127 is no multiple of eight, so in turn the programs of one part are on eight dies.

By the shares above MLA with 128 heads takes 0.18 of the copy bandwidth where its rows are read once. Read eight times
they would be 1.44 of it, so memory would bind the kernel, less what the cache behind the L2s holds. The blocks of many
new tokens fill the dies with one head in either order, so less is won there.

Left in turn: the indexer, whose programs share 16.5 KiB of keys and scales, and 512 KiB of queries in the other
direction; and extend with fewer KV heads than dies, where requests of different lengths would leave dies idle.

"""


def page(rows: Sequence[DecodeCode]) -> str:
    """The table of the code and that of the prediction, as Markdown."""
    # Here, since it reads `TRITON_CACHE_DIR` when it is imported.
    import triton

    head = _HEAD.format(triton=triton.__version__, batch=BATCH, context=CONTEXT)
    lines = [head + "| " + " | ".join(_COLUMNS) + " |", "|---" * len(_COLUMNS) + "|"]
    for row in rows:
        one, loop = row.code, row.loop
        cells = (row.case, row.target, row.warps, one.registers, one.spills, one.shared, loop.instructions,
                 round(row.per_token), loop.matrix, loop.ahead, loop.conversions, loop.byte_loads)  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    assert method.__doc__ is not None
    words = method.__doc__.replace("`ISSUED`", f"{method.ISSUED:.0%}").strip()
    words += f"\n\nThe latency is {method.LATENCY * 1e9:.0f} ns."
    for name, device in DEVICES.items():
        words += f" {name}: {device.bandwidth / 1e12:.1f} TB/s, {device.clock / 1e9:.2f} GHz."
    words += _SHORT
    lines += [_PREDICTED.format(method=words).rstrip("\n"), "", *shares(rows)]
    assert dies.__doc__ is not None
    lines += [_DIES.format(method=dies.__doc__.strip()).rstrip("\n"), "", *dies.table()]
    return "\n".join(lines) + "\n"


def shares(rows: Sequence[DecodeCode]) -> list[str]:
    """The table of the prediction."""
    lines = [_SHARES]
    for row in rows:
        for device, found in row.predicted.items():
            factors = (found.share, found.issue, found.flight, found.balance, found.traffic)
            cells = (row.case, device, *(f"{value:.2f}" for value in factors), found.bound)
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Prints the page, or writes it."""
    parser = argparse.ArgumentParser(prog="python -m sglang_platform.conformance.kernels.decode_code")
    parser.add_argument(
        "--target", action="append", choices=list(TARGETS), help="may be repeated; default all"
    )
    parser.add_argument("--case", action="append", choices=list(CASES), help="may be repeated; default all")
    parser.add_argument("--cache", type=Path, help="where Triton keeps what it compiled (TRITON_CACHE_DIR)")
    parser.add_argument("--table", type=Path, help="write the page there")
    options = parser.parse_args(arguments)
    if options.cache is not None:
        os.environ["TRITON_CACHE_DIR"] = str(options.cache.resolve())
    text = page(list(compiled(options.target or list(TARGETS), options.case or list(CASES))))
    if options.table is None:
        print(text)
    else:
        options.table.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
