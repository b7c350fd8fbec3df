"""The backend of whole graphs keeps them by the size in the host's key and leaves out the rest of it: the stream, the
variant of adapters, the variant of attention. A second capture of the same size replaces the first, can_run() says yes for
variants that nobody captured, and a batch with LoRA adapters replays the graph without them. One variant alone is right.
follows: no report looked up; the kind is a capture key that lost a field (SGLang's ShapeKey has four)
level: graphs
"""

from __future__ import annotations

from sglang_platform.conformance.reference.graph_runner import ReferenceFullGraphBackend
from sglang_platform.conformance.reference.platform import ReferencePlatform


class Backend(ReferenceFullGraphBackend):
    def capture_one(self, shape_key, forward_fn, capture_inputs=None, post_warmup_hook=None):
        super().capture_one(_size(shape_key), forward_fn, capture_inputs, post_warmup_hook)

    def can_run(self, forward_batch, shape_key):
        return super().can_run(forward_batch, _size(shape_key))

    def replay(self, shape_key, static_forward_batch, **kwargs):
        return super().replay(_size(shape_key), static_forward_batch, **kwargs)


def _size(shape_key):
    return shape_key[0] if isinstance(shape_key, tuple) else getattr(shape_key, "size", shape_key)


class Platform(ReferencePlatform):
    def get_full_graph_backend_cls(self):
        return Backend
