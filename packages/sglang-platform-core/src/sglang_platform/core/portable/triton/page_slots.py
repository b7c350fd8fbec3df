"""Which slots an extend and a decode step get: `core.memory.page_arithmetic` as kernels, one launch each.

Token p of a request that grows from `prefix` to `seq` tokens, with `before = ceil(prefix / P)` pages already its own:

    p < before * P   ->  last_loc + 1 + (p - prefix)                       the rest of its last page
    otherwise        ->  pages[first + p // P - before] * P + p % P        new pages, in order

`first` counts the new pages of the requests before it. Each program sums those itself, so nothing is read back.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_platform.core.portable.triton.architecture import Launch
from sglang_platform.core.portable.triton.launch import cdiv, next_power_of_2, portable_shapes

__all__ = ["decode_slots", "decode_slots_kernel", "extend_slots", "extend_slots_kernel"]

_PROGRAMS_PER_REQUEST = 32


@triton.jit(do_not_specialize=["programs"])
def extend_slots_kernel(
    prefix_ptr, seq_ptr, last_loc_ptr, pages_ptr, out_ptr, programs,
    PAGE: tl.constexpr, BLOCK_B: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Grid (requests, programs). Program j of a request writes blocks j, j + programs, ... of its slots."""
    request = tl.program_id(0)
    # Tokens and pages of a batch fit in 32 bits; slots may not.
    first_page = tl.zeros((), tl.int32)
    first_out = tl.zeros((), tl.int32)
    for start in range(0, request, BLOCK_B):
        other = start + tl.arange(0, BLOCK_B)
        earlier = other < request
        prefix = tl.load(prefix_ptr + other, mask=earlier, other=0).to(tl.int32)
        seq = tl.load(seq_ptr + other, mask=earlier, other=0).to(tl.int32)
        first_out += tl.sum(seq - prefix)
        first_page += tl.sum((seq + PAGE - 1) // PAGE - (prefix + PAGE - 1) // PAGE)
    prefix = tl.load(prefix_ptr + request).to(tl.int32)
    length = tl.load(seq_ptr + request).to(tl.int32) - prefix
    last_loc = tl.load(last_loc_ptr + request).to(tl.int64)
    before = (prefix + PAGE - 1) // PAGE
    for start in range(tl.program_id(1) * BLOCK, length, programs * BLOCK):
        token = start + tl.arange(0, BLOCK)
        live = token < length
        position = prefix + token
        new = live & (position >= before * PAGE)
        page = tl.load(pages_ptr + first_page + position // PAGE - before, mask=new, other=0)
        slot = tl.where(new, page * PAGE + position % PAGE, last_loc + 1 + token)
        tl.store(out_ptr + first_out + token, slot, mask=live)


def extend_slots(
    prefix_lens: torch.Tensor,
    seq_lens: torch.Tensor,
    last_loc: torch.Tensor,
    free_pages: torch.Tensor,
    out: torch.Tensor,
    *,
    page_size: int,
    launch: Launch | None = None,
) -> None:
    """Fill `out` int64 [sum(seq_lens - prefix_lens)]; arguments as in `page_arithmetic.extend_slots_on_device`."""
    batch, total = prefix_lens.numel(), out.numel()
    if total == 0:
        return
    launch = launch or portable_shapes(out.device).allocate
    # The longest request is not known here: launch as many programs as the whole batch could use, up to a limit.
    programs = min(cdiv(total, launch.elements), _PROGRAMS_PER_REQUEST)
    extend_slots_kernel[(batch, programs)](
        prefix_lens, seq_lens, last_loc, free_pages, out, programs,
        PAGE=page_size, BLOCK_B=min(next_power_of_2(batch), 1024), BLOCK=launch.elements,
        num_warps=launch.num_warps,
    )  # fmt: skip


@triton.jit(do_not_specialize=["batch"])
def decode_slots_kernel(
    seq_ptr, last_loc_ptr, pages_ptr, out_ptr, batch,
    PAGE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Grid (blocks of requests). A request takes the next page when its new token starts one."""
    taken = tl.zeros((), tl.int64)
    for start in range(0, tl.program_id(0) * BLOCK, BLOCK):
        seq = tl.load(seq_ptr + start + tl.arange(0, BLOCK)).to(tl.int64)
        taken += tl.sum(((seq - 1) % PAGE == 0).to(tl.int64))
    request = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = request < batch
    seq = tl.load(seq_ptr + request, mask=live, other=0).to(tl.int64)
    last_loc = tl.load(last_loc_ptr + request, mask=live, other=0).to(tl.int64)
    starts_page = live & ((seq - 1) % PAGE == 0)
    rank = taken + tl.cumsum(starts_page.to(tl.int64), axis=0) - 1
    page = tl.load(pages_ptr + rank, mask=starts_page, other=0)
    tl.store(out_ptr + request, tl.where(starts_page, page * PAGE, last_loc + 1), mask=live)


def decode_slots(
    seq_lens: torch.Tensor,
    last_loc: torch.Tensor,
    free_pages: torch.Tensor,
    out: torch.Tensor,
    *,
    page_size: int,
    launch: Launch | None = None,
) -> None:
    """Fill `out` int64 [B]; arguments as in `page_arithmetic.decode_slots_on_device`."""
    batch = seq_lens.numel()
    if batch == 0:
        return
    launch = launch or portable_shapes(out.device).allocate
    block = min(next_power_of_2(batch), launch.elements)
    decode_slots_kernel[(cdiv(batch, block),)](
        seq_lens, last_loc, free_pages, out, batch,
        PAGE=page_size, BLOCK=block,
        num_warps=launch.num_warps,
    )  # fmt: skip
