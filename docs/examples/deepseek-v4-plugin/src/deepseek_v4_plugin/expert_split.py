"""Experts split between the device and memory of the host: those that a batch chose are brought together for it."""

from __future__ import annotations

from typing import Any

import torch

from deepseek_v4_plugin.chosen_experts import EXPERT_TENSORS, ChosenExperts, OtherExperts
from sglang_platform.core import counter
from sglang_platform.core.registries import QuantMethodWrapper, RegistryError

__all__ = ["ExpertSplit"]

_layers = counter("deepseek_v4.split.layers")
_calls = counter("deepseek_v4.split.calls")
_brought = counter("deepseek_v4.split.experts_brought")
_around_mxfp4 = counter("deepseek_v4.split.around_mxfp4")


class ExpertSplit(QuantMethodWrapper):
    """The first experts of a layer stay on the device, the last `on_host` are in host memory, in whatever form the
    wrapped method left them: around MXFP4 what moves is a quarter as much."""

    _quant_wrapper_id = "v4_expert_split"

    def __init__(self, inner: Any, on_host: int) -> None:
        super().__init__(inner)
        self.on_host = on_host
        self.behind: dict[str, torch.Tensor] = {}

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """Raises RegistryError where the layer has no more experts than are to leave it."""
        self.inner.process_weights_after_loading(layer)
        experts = layer.num_experts
        if self.on_host >= experts:
            raise RegistryError(
                f"{self.on_host} of {experts} experts cannot be kept in host memory",
                why="at least one of each layer stays on the device",
                fix=f"set DSV4_HOST_EXPERTS to at most {experts - 1}",
            )
        stay = experts - self.on_host
        for name in (one for tensor in EXPERT_TENSORS for one in (tensor, f"{tensor}_scale")):
            held = getattr(layer, name, None)
            if held is None:
                continue
            self.behind[name] = held.detach()[stay:].to("cpu", copy=True)
            kept = held.detach()[:stay].clone()
            is_parameter = isinstance(held, torch.nn.Parameter)
            setattr(layer, name, torch.nn.Parameter(kept, requires_grad=False) if is_parameter else kept)
        _layers.add()
        _around_mxfp4.add("w13_weight_scale" in self.behind)

    def apply(self, layer: Any, dispatch_output: Any) -> Any:
        _calls.add()
        chosen = ChosenExperts(dispatch_output, layer.num_experts)
        stay = layer.num_experts - self.on_host
        here, away = chosen.ids[chosen.ids < stay], (chosen.ids[chosen.ids >= stay] - stay).cpu()
        _brought.add(away.numel())
        # The numbers rise, so those that stay come first.
        together = {
            name: torch.cat((getattr(layer, name)[here], behind[away].to(here.device)))
            for name, behind in self.behind.items()
        }
        return self.inner.apply(OtherExperts(layer, together), chosen.dispatched)
