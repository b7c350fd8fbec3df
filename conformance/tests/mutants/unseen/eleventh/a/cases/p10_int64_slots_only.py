"""The gather for retracted requests takes int64 slots alone; SGLang hands it a line of the request table, which is int32
(schedule_batch.py:2110 offload_kv_cache: req_to_token[...])."""
import torch
from base import WithParts
from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool


class Pool(ExampleOOTMHAPool):
    def get_cpu_copy(self, indices, mamba_indices=None, req_pool_index=None):
        if indices.dtype != torch.int64:
            raise RuntimeError("gather_rows: expected Long indices, got " + str(indices.dtype))
        return super().get_cpu_copy(indices, mamba_indices, req_pool_index)


class Platform(WithParts):
    _mha = Pool
