"""Parts of the platform."""

import os


class DolomiteMemory:
    def get_device_total_memory(self, device_id: int = 0) -> int:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def get_current_memory_usage(self, device=None) -> float:
        return 0.0

    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        total = self.get_device_total_memory(device_id)
        return total, total


class DolomiteOlderNames:
    """SGLang 0.5.11 to 0.5.20 asks these."""

    def get_mha_kv_pool_cls(self):
        from .pool import DolomitePool

        return DolomitePool

    def support_cuda_graph(self) -> bool:
        return False

    def support_piecewise_cuda_graph(self) -> bool:
        return False
