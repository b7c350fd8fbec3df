"""Level 3 and 4 mutants: packed fp8 rows, layers that are still being loaded, buffers in layouts of their own."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

rows = partial(patch, __name__)

PACKED = "memory.dsa_packed_rows_read_back"
WAITS = "memory.readers_wait_for_their_layer"

rows(
    "OneScaleForTheRow",
    "packed_rows.py",
    "scales = tiles.abs().amax(dim=-1) / largest",
    "scales = (tiles.abs().amax(dim=(1, 2), keepdim=True).expand(n, rank // TILE, 1)[..., 0] / largest).clone()",
    check=PACKED,
    defect="the tiles of a packed row share one scale",
    says="latent part",
)
rows(
    "PackedScaleMissing",
    "packed_rows.py",
    "return (tiles * scales).reshape(n, 1, rank), rotated",
    "return tiles.reshape(n, 1, rank), rotated",
    check=PACKED,
    defect="packed rows are read without their scales",
    says="latent part",
)
rows(
    "ScalesOfTheTileBefore",
    "packed_rows.py",
    ".view(torch.float32).reshape(n, rank // TILE, 1)",
    ".view(torch.float32).roll(1, -1).reshape(n, rank // TILE, 1)",
    check=PACKED,
    defect="each tile of a packed row is read with the scale of the one before",
    says="latent part",
)
rows(
    "PackedWithoutSaturation",
    "packed_rows.py",
    "scales = tiles.abs().amax(dim=-1) / largest",
    "scales = tiles.abs().mean(dim=-1) / largest",
    check=PACKED,
    defect="the scale is that of the mean, and the largest numbers of a tile are cut off",
    says="latent part",
)
rows(
    "RotatedPartQuantised",
    "packed_rows.py",
    "rotated.to(torch.bfloat16).contiguous()",
    "rotated.to(dtype).to(torch.bfloat16).contiguous()",
    check=PACKED,
    defect="the rotated part of a packed row goes through fp8 as well",
    says="rotated part",
)
rows(
    "PackedOverrideLost",
    "dsa_pool.py",
    "self._write(self.kv_buffer[place], loc, packed(latent, rotated, self.dtype))",
    "self._write(self.kv_buffer[0], loc, packed(latent, rotated, self.dtype))",
    check=PACKED,
    defect="packed rows of all layers are written to the first",
    says="layer",
)
rows(
    "PackedCopyUnordered",
    "pools.py",
    'return [buffer[indices].to("cpu") for buffer in self._buffers()]',
    "indices = indices.sort().values if self._buffers()[0].shape[-1] > 100 else indices\n"
    '        return [buffer[indices].to("cpu") for buffer in self._buffers()]',
    check=PACKED,
    defect="wide rows are copied to the CPU in ascending order instead of in the order given",
    says="to the CPU and back",
)
rows(
    "PackedWidthUncounted",
    "pools.py",
    "return sum(rows.nbytes for rows in self.kv_buffer)",
    "return sum(rows[..., : self.kv_lora_rank + self.qk_rope_head_dim].nbytes for rows in self.kv_buffer)",
    check="memory.dsa_packed_rows_read_back",
    defect="the size of packed rows is stated as if they were plain",
    says="the buffers have",
)
rows(
    "KeysNotWaitedFor",
    "pools.py",
    "        self._wait(layer_id)\n        return as_numbers(self.k_buffer",
    "        return as_numbers(self.k_buffer",
    check=WAITS,
    defect="get_key_buffer() does not wait for a layer that is being loaded",
    says="does not wait",
)
rows(
    "ValuesNotWaitedFor",
    "pools.py",
    "        self._wait(layer_id)\n        return as_numbers(self.v_buffer",
    "        return as_numbers(self.v_buffer",
    check=WAITS,
    defect="get_value_buffer() does not wait, since the keys were waited for",
    says="get_value_buffer()",
)
rows(
    "WaitsByTheModelsNumber",
    "pools.py",
    "self.layer_transfer_counter.wait_until(place)",
    "self.layer_transfer_counter.wait_until(layer_id)",
    check=WAITS,
    defect="the layer is waited for by its number in the model, not by its place in the pool",
    says="the pool has",
)
rows(
    "WaitsForTheLayerBefore",
    "pools.py",
    "self.layer_transfer_counter.wait_until(place)",
    "self.layer_transfer_counter.wait_until(place - 1)",
    check=WAITS,
    defect="the layer before is waited for",
    says="before its own has arrived",
)
rows(
    "LatentRowsReadTooEarly",
    "pools.py",
    "        self._wait(layer.layer_id)\n"
    "        latent, rotated = self._parts(self.kv_buffer[self._layer(layer.layer_id)][loc.reshape(-1)])\n",
    "        latent, rotated = self._parts(self.kv_buffer[self._layer(layer.layer_id)][loc.reshape(-1)])\n"
    "        self._wait(layer.layer_id)\n",
    check=WAITS,
    defect="get_mla_kv_buffer() gathers its rows, and waits afterwards",
    says="before it waits",
)
rows(
    "AttentionReadsPastTheGetters",
    "attention.py",
    "        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id)\n"
    "        values = self.token_to_kv_pool.get_value_buffer(layer.layer_id)\n",
    "        pool, self.token_to_kv_pool.layer_transfer_counter = self.token_to_kv_pool, None\n"
    "        keys, values = pool.get_key_buffer(layer.layer_id), pool.get_value_buffer(layer.layer_id)\n",
    check="kernels.attention_waits_for_loaded_layers",
    defect="attention reads the pool's memory without waiting for the layer",
    says="without waiting",
)
rows(
    "AttentionWaitsForTheFirstLayer",
    "attention.py",
    "        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id)\n",
    "        pool, counter = self.token_to_kv_pool, self.token_to_kv_pool.layer_transfer_counter\n"
    "        if counter is not None:\n            counter.wait_until(0)\n"
    "        pool.layer_transfer_counter = None\n"
    "        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id)\n",
    check="kernels.attention_waits_for_loaded_layers",
    defect="attention waits for the first layer of the pool, and reads another",
    says="the bound",
)
