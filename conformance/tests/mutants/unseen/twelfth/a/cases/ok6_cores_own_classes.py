"""Healthy: pools, allocator, attention, communicator, host memory and memory saver are core's own classes as they are;
no graphs, since core's attention in plain torch declares none.
level: memory
"""

from __future__ import annotations

from sglang_platform.conformance.reference.platform import NAME, ReferencePlatform
from sglang_platform.core import PlatformCapabilities
from sglang_platform.core.contract.types import kv_pool_kind


class Platform(ReferencePlatform):
    capabilities = PlatformCapabilities(fp8=True)

    def get_attention_backends(self):
        from sglang_platform.core.portable.torch.attention import TorchAttentionBackend

        return {NAME: TorchAttentionBackend}

    def get_kv_pool_cls(self, *, kind):
        from sglang_platform.core import DSATokenToKVPool, MHATokenToKVPool, MLATokenToKVPool

        pools = {"mha": MHATokenToKVPool, "mla": MLATokenToKVPool, "dsa": DSATokenToKVPool}
        return pools[kv_pool_kind(kind)]

    def get_paged_allocator_cls(self):
        from sglang_platform.core import PagedTokenToKVPoolAllocator

        return PagedTokenToKVPoolAllocator

    def get_graph_runner_cls(self):
        return None

    def get_full_graph_backend_cls(self):
        return None

    def get_communicator_class(self):
        from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator

        return TorchGroupCommunicator

    def get_host_memory_cls(self):
        from sglang_platform.core.memory.host_memory import HostMemory

        return HostMemory

    def get_memory_saver_cls(self):
        from sglang_platform.core.memory.memory_saver import MemorySaver

        return MemorySaver
