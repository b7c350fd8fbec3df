"""Keys and values, stored by Ember's kernel."""

from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, unwrap_write_loc

from . import kernels


class EmberPool(MHATokenToKVPool):
    def set_kv_buffer(
        self,
        layer,
        loc_info,
        cache_k,
        cache_v,
        k_scale=None,
        v_scale=None,
        layer_id_override=None,
        dcp_kv_mask=None,
    ):
        loc, _, _ = unwrap_write_loc(loc_info)
        index = (layer.layer_id if layer_id_override is None else layer_id_override) - self.start_layer
        kernels.store_rows(self.k_buffer[index], loc, cache_k)
        kernels.store_rows(self.v_buffer[index], loc, cache_v)
