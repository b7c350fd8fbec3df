"""Healthy: the attention backend is made by a function, and is a shell that hands its forwards to an inner backend and
everything it does not have to that one (`__getattr__`). The request table that core swaps in for drafts is handed on.
level: kernels
"""

from __future__ import annotations

import functools

from sglang_platform.conformance.reference.attention import ReferenceAttention
from sglang_platform.conformance.reference.platform import NAME, ReferencePlatform
from sglang_platform.core import AttentionBackend


class Shell(AttentionBackend):
    def __init__(self, model_runner, make):
        super().__init__(model_runner)
        self._inside = make(model_runner)

    def __getattr__(self, name):
        if name == "_inside":
            raise AttributeError(name)
        return getattr(self._inside, name)

    def init_cuda_graph_state(self, max_bs, max_num_tokens):
        self._inside.init_cuda_graph_state(max_bs, max_num_tokens)

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        self._inside.init_forward_metadata_out_graph(forward_batch, in_capture=in_capture)

    def init_forward_metadata_in_graph(self, forward_batch):
        self._inside.init_forward_metadata_in_graph(forward_batch)

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        return self._now().forward_decode(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        return self._now().forward_extend(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)

    def _now(self):
        self._inside.token_to_kv_pool = self.token_to_kv_pool
        self._inside.req_to_token_pool = self.req_to_token_pool
        return self._inside


def make_backend(model_runner, *, make):
    return Shell(model_runner, make)


class Platform(ReferencePlatform):
    def get_attention_backends(self):
        return {NAME: functools.partial(make_backend, make=ReferenceAttention)}
