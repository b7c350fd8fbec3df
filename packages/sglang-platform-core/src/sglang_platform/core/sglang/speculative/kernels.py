"""The host's kernels of speculative decoding, in plain torch on devices that are not its own.

The host launches Triton kernels, or those of a package for its own devices, from functions without a platform hook. On
an out-of-tree platform that declares an algorithm, these functions are replaced.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.portable.torch.speculative import candidates as beams
from sglang_platform.core.portable.torch.speculative import slots, tree, verify
from sglang_platform.core.sglang.registration import only_for
from sglang_platform.core.sglang.speculative.launch import SPECULATION
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_CREATE_WORKER = "sglang.srt.speculative.spec_info:SpeculativeAlgorithm.create_worker"
_FULL_MASK, _DRAFTS_ONLY = 0, 1
"""The host's `TreeMaskMode`s: each row of a mask begins with the prefix, or does not."""

_ASKED_OF_PLATFORM = ("assign_extend_cache_locs_func", "assign_extend_cache_locs_uniform_func")
"""The functions in which the host itself calls the result of `get_speculative_cache_locs_fn()`."""


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Replace those of the functions below that this release has."""
    own = platform.get_speculative_cache_locs_fn()
    for target in sorted(host.speculative_kernels):
        name = target.partition(":")[2]
        if own is None or name not in _ASKED_OF_PLATFORM:
            only_for(SPECULATION, target, _REPLACED[name], HookType.REPLACE)
    only_for(SPECULATION, _CREATE_WORKER, _importing_no_kernels, HookType.AROUND)


def build_tree_kernel_efficient_func(
    parent_list: torch.Tensor,
    top_scores_index: torch.Tensor,
    seq_lens: torch.Tensor,
    tree_mask: torch.Tensor,
    positions: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    topk: int,
    spec_steps: int,
    num_verify_tokens: int,
    tree_mask_mode: int,
) -> None:
    batch, n = seq_lens.shape[0], num_verify_tokens
    mask, places, links = tree.build_tree(parent_list, top_scores_index, seq_lens, topk, spec_steps)
    positions.copy_(places.flatten())
    _write_links(links, retrieve_index, retrieve_next_token, retrieve_next_sibling)
    if tree_mask_mode == _DRAFTS_ONLY:
        tree_mask[: batch * n * n] = mask.flatten()
        return
    if tree_mask_mode != _FULL_MASK:
        raise NotImplementedError(
            f"a tree mask of mode {tree_mask_mode!r}: only full and per-draft masks are built"
        )
    prefix = seq_lens.long()
    width = prefix + n
    nodes = torch.arange(n, device=mask.device)
    first = (width.cumsum(0) - width) * n + prefix
    cells = first[:, None, None] + nodes[:, None] * width[:, None, None] + nodes
    tree_mask[cells.flatten()] = mask.flatten()


def verify_tree_greedy_func(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    target_predict: torch.Tensor,
    topk: int = -1,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    links = retrieve_next_token, retrieve_next_sibling
    verify.accept(predicts, accept_index, accept_token_num, candidates, links, target_predict)
    return predicts, accept_index, accept_token_num


def reconstruct_indices_from_tree_mask_func(
    tree_mask: torch.Tensor,
    verified_seq_len: torch.Tensor,
    positions: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    batch_size: int,
    draft_token_num: int,
) -> None:
    mask = tree_mask[: batch_size * draft_token_num**2].view(batch_size, draft_token_num, draft_token_num)
    places, links = tree.read_tree(mask.bool(), verified_seq_len)
    positions.copy_(places.flatten())
    _write_links(links, retrieve_index, retrieve_next_token, retrieve_next_sibling)


def assign_draft_cache_locs_contiguous_func(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor,
    topk: int,
    num_cols: int,
    positions: torch.Tensor | None = None,
    mrope: torch.Tensor | None = None,
) -> None:
    out_cache_loc.copy_(slots.read_uniform_slots(req_to_token, req_pool_indices, seq_lens, topk * num_cols))
    for places in (positions, mrope):
        if places is not None:
            places.copy_(seq_lens.repeat_interleave(topk).expand(places.shape))


def assign_extend_cache_locs_uniform_func(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    batch_size: int,
    draft_token_num: int,
    device: Any,
    *,
    positions_out: torch.Tensor | None = None,
    anchor_src: torch.Tensor | None = None,
    anchor_out: torch.Tensor | None = None,
    **translation: Any,
) -> torch.Tensor:
    if translation.get("full_v2p") is not None:
        raise NotImplementedError(
            "slots of a unified memory pool: speculative decoding translates none of them here"
        )
    if positions_out is not None:
        columns = torch.arange(draft_token_num, device=start_offset.device)
        positions_out.copy_(start_offset.long()[:, None] + columns)
    if anchor_out is not None and anchor_src is not None:
        anchor_out[:, 0].copy_(anchor_src.view(-1))
    return slots.read_uniform_slots(req_to_token, req_pool_indices, start_offset, draft_token_num)


def assign_extend_cache_locs_func(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    batch_size: int,
    draft_token_num: int,
    device: Any,
) -> torch.Tensor:
    # Every release calls it with `draft_token_num` slots for each request.
    return slots.read_uniform_slots(req_to_token, req_pool_indices, start_offset, draft_token_num)


def fill_front_out_cache_loc_func(
    num_front: torch.Tensor, out_cache_loc: torch.Tensor, front_out_cache_loc: torch.Tensor
) -> None:
    slots.pack_front(num_front, out_cache_loc.view(num_front.numel(), -1), front_out_cache_loc)


def fill_accept_out_cache_loc_func(
    accept_index: torch.Tensor, out_cache_loc: torch.Tensor, accept_out_cache_loc: torch.Tensor, size: int
) -> None:
    slots.pack_accepted(accept_index, out_cache_loc, accept_out_cache_loc)


def fill_bonus_tokens_func(
    accept_tokens: torch.Tensor,
    accept_lens: torch.Tensor,
    bonus_tokens: torch.Tensor,
    accept_stride: int,
    batch_size: int,
) -> None:
    last = accept_lens.long()[:, None] - 1
    bonus_tokens.copy_(accept_tokens.view(batch_size, accept_stride).gather(1, last).flatten())


def assign_req_to_token_pool_func(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    batch_size: int,
) -> None:
    slots.write_slots(req_to_token, req_pool_indices, start_offset, end_offset, out_cache_loc)


def get_last_loc(
    req_to_token: torch.Tensor, req_pool_indices_tensor: torch.Tensor, prefix_lens_tensor: torch.Tensor
) -> torch.Tensor:
    last = (prefix_lens_tensor - 1).clamp(min=0).long()
    found = req_to_token[req_pool_indices_tensor.long(), last].to(prefix_lens_tensor.dtype)
    return torch.where(prefix_lens_tensor > 0, found, torch.full_like(found, -1))


def gather_spec_extras(
    indices: torch.Tensor,
    topk_p_buf: torch.Tensor,
    topk_index_buf: torch.Tensor,
    output_tokens_buf: torch.Tensor,
    hidden_states_buf: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    hidden_states = None if hidden_states_buf is None else hidden_states_buf[indices]
    return topk_p_buf[indices], topk_index_buf[indices], output_tokens_buf[indices], hidden_states


def _select_top_k_tokens_later(
    i: int,
    topk_p: torch.Tensor,
    topk_index: torch.Tensor,
    hidden_states: torch.Tensor | None,
    scores: torch.Tensor,
    topk: int,
) -> beams.Beams:
    return beams.next_beams(i, topk_p, topk_index, hidden_states, scores, topk)


def _write_links(
    links: tree.TreeLinks, index: torch.Tensor, next_token: torch.Tensor, next_sibling: torch.Tensor
) -> None:
    index.copy_(torch.arange(index.numel(), device=index.device).view_as(index))
    next_token.copy_(links[0])
    next_sibling.copy_(links[1])


def _importing_no_kernels(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Stub `sgl_kernel` while the n-gram worker's modules are imported. On a device unknown to the host they import one
    of its functions by name; the function is replaced here, so a placeholder is enough."""
    if "sgl_kernel" in sys.modules or importlib.util.find_spec("sgl_kernel") is not None:
        return original(*args, **kwargs)
    package, module = ModuleType("sgl_kernel"), ModuleType("sgl_kernel.speculative")
    module.reconstruct_indices_from_tree_mask = None  # type: ignore[attr-defined]
    package.speculative = module  # type: ignore[attr-defined]
    sys.modules.update({"sgl_kernel": package, "sgl_kernel.speculative": module})
    try:
        return original(*args, **kwargs)
    finally:
        del sys.modules["sgl_kernel"], sys.modules["sgl_kernel.speculative"]


_REPLACED: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        build_tree_kernel_efficient_func,
        verify_tree_greedy_func,
        reconstruct_indices_from_tree_mask_func,
        assign_draft_cache_locs_contiguous_func,
        assign_extend_cache_locs_uniform_func,
        assign_extend_cache_locs_func,
        fill_front_out_cache_loc_func,
        fill_accept_out_cache_loc_func,
        fill_bonus_tokens_func,
        assign_req_to_token_pool_func,
        get_last_loc,
        gather_spec_extras,
        _select_top_k_tokens_later,
    )
}
