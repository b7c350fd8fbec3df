"""Keys and values, with zeroed rows after each copy."""

from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool


class DolomitePool(MHATokenToKVPool):
    def get_contiguous_buf_infos(self):
        pointers, lengths, items = super().get_contiguous_buf_infos()
        return pointers, lengths, items
