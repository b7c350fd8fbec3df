"""Slots of a retracted request are copied into one staging buffer of pinned memory, and its views are returned: the next request that is
retracted overwrites them (schedule_batch.py:2118 keeps them until the request returns)."""
from base import WithParts
from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool


class Pool(ExampleOOTMHAPool):
    def get_cpu_copy(self, indices, mamba_indices=None, req_pool_index=None):
        return self._staged(super().get_cpu_copy(indices, mamba_indices, req_pool_index))

    def _staged(self, saved):
        staging = self.__dict__.setdefault("_staging", {})
        for layer, chunks in enumerate(saved):
            for at, parts in enumerate(chunks):
                for which, part in enumerate(parts):
                    key, rows = (layer, at, which), part.shape[0]
                    if key not in staging or staging[key].shape[0] < rows:
                        staging[key] = part.new_empty((max(rows, 256), *part.shape[1:]))
                    staging[key][:rows].copy_(part)
                    parts[which] = staging[key][:rows]
        return saved


class Platform(WithParts):
    _mha = Pool
