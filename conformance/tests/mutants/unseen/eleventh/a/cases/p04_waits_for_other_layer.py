"""A reader waits for the layer by its number in the whole model; the counter counts the pool's own layers (memory_pool.py:2857:
layer_id - start_layer). Only pipeline stages after the first differ."""
from base import WithParts
from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool


class Pool(ExampleOOTMHAPool):
    def _layer_to_read(self, layer_id):
        index = self._layer_index(layer_id)
        if self.layer_transfer_counter is not None:
            self.layer_transfer_counter.wait_until(layer_id)
        return index


class Platform(WithParts):
    _mha = Pool
