"""The attention backends of a draft model's steps as one object, as SGLang keeps them."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.attention.speculative import DraftPlace
from sglang_platform.core.errors import HostError
from sglang_platform.core.sglang.host_classes import load

__all__ = ["DraftSteps", "backend_of", "host_graph_runner"]

_BACKENDS = "sglang.srt.layers.attention.attention_registry:ATTENTION_BACKENDS"

_GRAPH_RUNNERS = {
    "draft_decode": "sglang.srt.speculative.eagle_draft_cuda_graph_runner:EAGLEDraftCudaGraphRunner",
    "draft_extend": "sglang.srt.speculative.eagle_draft_extend_cuda_graph_runner:EAGLEDraftExtendCudaGraphRunner",
}


def backend_of(name: str, model_runner: Any) -> Any:
    """A new attention backend of a registered name, for a model runner."""
    return load(_BACKENDS)[name](model_runner)


def host_graph_runner(phase: str) -> type:
    """The host's own graph runner of a draft model's phase; its graphs are those of `get_full_graph_backend_cls()`."""
    runner: type = load(_GRAPH_RUNNERS[phase])
    return runner


class DraftSteps:
    """One attention backend for each step but the last, which only chooses tokens.

    Raises HostError for a backend without `forward_draft`, which core's base class provides.
    """

    def __init__(self, name: str, model_runner: Any, topk: int, steps: int) -> None:
        self.topk = topk
        self.speculative_num_steps = steps
        self.device = model_runner.device
        self.attn_backends = [backend_of(name, model_runner) for _ in range(steps - 1)]
        for step, backend in enumerate(self.attn_backends):
            if not hasattr(backend, "forward_draft"):
                raise HostError(
                    f"the attention backend {name!r} cannot serve a draft model of {steps} steps",
                    why=f"{type(backend).__name__} has no forward_draft()",
                    fix="write it on sglang_platform.core's AttentionBackend, or draft one step "
                    "(--speculative-num-steps 1)",
                )
            backend.drafts = DraftPlace(step, topk, steps)

    @property
    def needs_cpu_seq_lens(self) -> bool:
        """True if a step needs the sequence lengths on the CPU."""
        return any(backend.needs_cpu_seq_lens for backend in self.attn_backends)

    def init_forward_metadata(self, forward_batch: Any) -> None:
        """Mark the steps as eager; each step prepares its metadata in its first layer, when it knows its batch."""
        self._place(captured=False)

    def init_forward_metadata_out_graph(self, forward_batch: Any, in_capture: bool = False) -> None:
        """As `init_forward_metadata`, for a batch in static buffers."""
        self._place(captured=True)

    def _place(self, *, captured: bool) -> None:
        for backend in self.attn_backends:
            backend.drafts = backend.drafts._replace(captured=captured)

    def init_forward_metadata_in_graph(self, forward_batch: Any) -> None:
        """As `init_forward_metadata`."""

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        """Allocate the static buffers of each step."""
        for backend in self.attn_backends:
            backend.init_cuda_graph_state(max_bs, max_num_tokens)
