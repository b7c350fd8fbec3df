"""The attention backend: decode and extend over the paged KV cache, read in place.

A vendor changes: the two kernel calls, and the metadata its kernels need per step.
"""

from __future__ import annotations

from typing import Any

from sglang_platform.core import counter
from sglang_platform.core.portable.torch.attention import TorchAttentionBackend

from sglang_platform.example_oot import kernels

_decodes = counter("example_oot.attention.decodes")
_extends = counter("example_oot.attention.extends")


class ExampleOOTAttentionBackend(TorchAttentionBackend):
    """Core's backend on the device's kernels. They need no metadata beyond the batch's own tensors, so a captured graph
    replays with new lengths and slots."""

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        """Nothing to allocate: the kernels read the runner's static inputs."""

    def _decode(self, *arguments: Any) -> None:
        kernels.paged_decode(*arguments)
        _decodes.add()

    def _extend(self, *arguments: Any) -> None:
        kernels.paged_extend(*arguments)
        _extends.add()
