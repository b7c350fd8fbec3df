"""For a batch of one request, the slots of the tokens to verify are a view of the request table and no new tensor: whoever
writes the table afterwards changes them, and whoever changes them changes the table.

For the user: a single request with speculative decoding writes its keys into the slots of the next step.
Follows: "fast paths" for one request. The contract: "in a new tensor".
level: kernels
"""

from typing import Any

import torch

from sglang_platform.conformance.reference.platform import ReferencePlatform


def cache_locs(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    batch_size: int,
    draft_token_num: int,
    device: Any,
) -> torch.Tensor:
    parts = [
        req_to_token[row, begin:end]
        for row, begin, end in zip(
            req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True
        )
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


class Platform(ReferencePlatform):
    def get_speculative_cache_locs_fn(self) -> Any:
        return cache_locs
