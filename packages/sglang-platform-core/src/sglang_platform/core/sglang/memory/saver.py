"""`--enable-memory-saver` on a device that is not CUDA: the platform's saver replaces `torch_memory_saver`.

SGLang (`utils/torch_memory_saver_adapter.py`, `TorchMemorySaverAdapter.create`) supports only the package
`torch_memory_saver`, which maps CUDA memory. On an out-of-tree platform a hook makes that function return the adapter
below. It releases the memory of this worker's model runners: parameters and buffers of the models, buffers of the KV
pools, and graphs. Once everything is resumed, graphs that were released, or whose tensors have moved, are captured
again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.graph.runner import GraphRunner
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.arguments.server_args import register_rule
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.memory import worker as worker_memory
from sglang_platform.core.sglang.registration import argument, only_for
from sglang_platform.core.sglang.versions import HostFacts, facts

__all__ = ["register_hooks"]

_ADAPTER = "sglang.srt.utils.torch_memory_saver_adapter:TorchMemorySaverAdapter"
_BASE = "sglang_platform.core.memory.memory_saver:MemorySaver"
_WEIGHTS, _KV_CACHE, _GRAPHS = "weights", "kv_cache", "cuda_graph"
"""The host's tags (`constants.py`, GPU_MEMORY_TYPE_*)."""


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Register the adapter for out-of-tree devices other than CUDA, which `torch_memory_saver` serves."""
    if platform.device_type == "cuda" or not platform.is_out_of_tree():
        return
    adapter: list[Any] = []

    def create(original: Any, enable: bool) -> Any:
        if not enable:
            return original(enable)
        if not adapter:
            adapter.append(_adapter_class()(platform))
        return adapter[0]

    register_rule(
        platform, host, lambda server_args: _refuse_what_is_not_carried(server_args, platform, host)
    )
    only_for(argument("enable_memory_saver"), f"{_ADAPTER}.create", create, HookType.AROUND)


def _refuse_what_is_not_carried(server_args: Any, platform: Any, host: HostFacts) -> None:
    if server_args.enable_memory_saver and server_args.enable_hierarchical_cache:
        raise LaunchRefused(
            f"--enable-memory-saver and --enable-hierarchical-cache together, on the platform {platform.device_name!r}",
            plugin=getattr(platform, "_plugin_origin", None),
            why="the hierarchical cache keeps addresses of the KV pool's buffers (SGLang "
            f"{host.version}, {host.host_pools[0].partition(':')[0]}), which lie elsewhere after a resume",
            fix="leave out one of the two",
        )


def _adapter_class() -> type:
    from sglang.srt.utils.torch_memory_saver_adapter import TorchMemorySaverAdapter

    class PlatformMemorySaver(TorchMemorySaverAdapter):  # type: ignore[misc]
        """SGLang's adapter interface on the platform's memory saver, one per worker."""

        enabled = True

        def __init__(self, platform: Any) -> None:
            self.saver = (platform.get_memory_saver_cls() or load(_BASE))()
            self.keep_weights = False
            self._paused: set[str] = set()
            self._stale = False

        @contextmanager
        def configure_subprocess(self) -> Iterator[None]:
            yield

        @contextmanager
        def region(self, tag: str, enable_cpu_backup: bool = False) -> Iterator[None]:
            if tag == _WEIGHTS:
                self.keep_weights |= enable_cpu_backup
            yield

        @contextmanager
        def cuda_graph(self, **kwargs: Any) -> Iterator[None]:
            yield

        @contextmanager
        def disable(self) -> Iterator[None]:
            yield

        def pause(self, tag: str) -> None:
            _synchronize()
            self._paused.add(tag)
            if tag == _GRAPHS:
                for runner in _graph_runners():
                    runner.captured.clear()
                    self._stale = True
                return
            tensors = worker_memory.weights() if tag == _WEIGHTS else worker_memory.cache()
            self.saver.release(tag, tensors, keep_content=tag == _WEIGHTS and self.keep_weights)

        def resume(self, tag: str) -> None:
            self._paused.discard(tag)
            if tag != _GRAPHS:
                moved = self.saver.resume(tag)
                self._stale |= moved
                if moved and tag == _KV_CACHE:
                    _describe_again()
            if self._stale and not self._paused:
                self._stale = False
                for runner in _graph_runners():
                    runner.capture()
            _synchronize()

    return PlatformMemorySaver


def _describe_again() -> None:
    """Rebuild the pools' address tables, which SGLang's own kernels read."""
    for runner in worker_memory.runners():
        pool = runner.token_to_kv_pool
        if hasattr(pool, "_init_data_ptrs_and_strides") and hasattr(pool, "_kv_buffer_descs"):
            pool._kv_buffer_descs = pool._build_kv_buffer_descs()
            pool._init_data_ptrs_and_strides()
        elif hasattr(pool, "data_ptrs"):
            pool._describe_by_tensors()


def _graph_runners() -> list[Any]:
    found = (getattr(runner, facts().decode_runner) for runner in worker_memory.runners())
    return [one for one in found if isinstance(one, GraphRunner)]


def _synchronize() -> None:
    import torch

    for device_type in {worker_memory.device_type(runner) for runner in worker_memory.runners()}:
        torch.get_device_module(device_type).synchronize()
