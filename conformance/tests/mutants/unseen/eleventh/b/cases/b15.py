"""The slots of a draft step are taken as consecutive from the first one; behind a page they are not.
Source: cache_loc_update-like kernels of page-sized devices; called in kernels/ops/speculative/cache_locs.py:672."""
import torch
from b_base import Base

def locs(req_pool_indices, req_to_token, start_offset, end_offset, batch_size, draft_token_num, device):
    first = req_to_token[req_pool_indices.long(), start_offset.long()].long()
    return (first[:, None] + torch.arange(draft_token_num, device=first.device)).flatten()

class P(Base):
    def get_speculative_cache_locs_fn(self):
        return locs
