"""The static inputs of a pipeline stage: the tensors that the previous stage sends in each decode step.

A model that is split over several ranks by layers gets the hidden states of the layers before (and, by model, the
residual, attention indices, ...) beside the batch. A captured graph reads them at fixed addresses, like all inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["StageInputs"]


class StageInputs:
    """Buffers by name, each [max_bs, ...]; empty for a first stage, and where the model is on one rank."""

    def __init__(self, buffers: Mapping[str, torch.Tensor] | None = None) -> None:
        self.buffers = dict(buffers or {})

    @classmethod
    def like(cls, received: Mapping[str, Any], rows: int) -> StageInputs:
        """Buffers of `rows` rows for what was received."""
        return cls({k: t.new_zeros((rows, *t.shape[1:])) for k, t in _tensors(received).items()})

    def rows(self, n: int) -> dict[str, torch.Tensor]:
        """Views of the first `n` rows, which live as long as the buffers."""
        return {name: buffer[:n] for name, buffer in self.buffers.items()}

    def fits(self, received: Mapping[str, Any]) -> bool:
        """True if the received tensors and the buffers have the same names and row shapes."""
        shapes = {name: tensor.shape[1:] for name, tensor in _tensors(received).items()}
        return shapes == {name: buffer.shape[1:] for name, buffer in self.buffers.items()}

    def load(self, received: Mapping[str, Any], bucket: int) -> None:
        """Copy the rows of a live batch in and zero the rows up to `bucket`."""
        for name, tensor in _tensors(received).items():
            n = tensor.shape[0]
            self.buffers[name][:n].copy_(tensor)
            self.buffers[name][n:bucket].zero_()

    def fill(self, start: float, end: float) -> None:
        """Fill every row with the same values, evenly spaced from `start` to `end`. Rows must be equal when a capture
        is verified, since padded rows share slot 0. Integer buffers become zero, a valid index everywhere."""
        import torch

        for buffer in self.buffers.values():
            if buffer.dtype.is_floating_point:
                width = buffer[:1].numel()
                row = torch.linspace(start, end, width, dtype=torch.float32).to(buffer.dtype)
                buffer.copy_(row.to(buffer.device).view(1, *buffer.shape[1:]).expand_as(buffer))
            else:
                buffer.zero_()


def _tensors(received: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors among the received values; the others describe the message and are no inputs of the model."""
    return {name: value for name, value in received.items() if hasattr(value, "data_ptr")}
