"""Level 9 mutants: several ranks, nodes and engines. Each needs an engine or two."""

from __future__ import annotations

from typing import Any

import torch
from mutant import mutant
from mutants_of_features import Hooked

from sglang_platform.core.distributed.transfer_engine import TransferEngine
from sglang_platform.core.memory.host_memory import HostMemory
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend
from sglang_platform.example_oot.graph_runner import ExampleOOTGraphRunner
from sglang_platform.example_oot.platform import ATTENTION_BACKEND, ExampleOOTPlatform

_GROUP = "sglang.srt.distributed.parallel_state:GroupCoordinator"
_TOKENS = "transformers gives"


@mutant(
    check="features.tensor_parallel",
    defect="the second rank's share is added twice",
    says=_TOKENS,
    host="sglang",
    device="example_oot",
)
class SecondShareTwice(Hooked):  # a mean would scale all that enters a norm alike, and change nothing
    _target = f"{_GROUP}.all_reduce"

    @staticmethod
    def _wrong(original: Any, group: Any, input_: torch.Tensor, *rest: Any, **named: Any) -> Any:
        return original(group, input_ * (1 + group.rank_in_group), *rest, **named)


@mutant(
    check="features.expert_parallel",
    defect="the second rank goes on with its own experts' share",
    says=_TOKENS,
    host="sglang",
    device="example_oot",
)
class ShareOfItsOwnExperts(Hooked):
    _target = f"{_GROUP}.all_reduce"

    @staticmethod
    def _wrong(original: Any, group: Any, input_: torch.Tensor, *rest: Any, **named: Any) -> Any:
        own = input_.clone()
        summed = original(group, input_, *rest, **named)
        return own if group.rank_in_group else summed


@mutant(
    check="features.two_nodes",
    defect="between nodes nothing is added up: each goes on with its share",
    says=_TOKENS,
    host="sglang",
    device="example_oot",
)
class NodesKeepTheirShares(Hooked):
    _target = f"{_GROUP}.all_reduce"

    @staticmethod
    def _wrong(original: Any, group: Any, input_: torch.Tensor, *rest: Any, **named: Any) -> Any:
        return input_


class _SecondOfTwoIsWrong(ExampleOOTAttentionBackend):
    """Values at half their size on every model whose device is the second."""

    def forward_decode(self, *args: Any, **kwargs: Any) -> Any:
        out = super().forward_decode(*args, **kwargs)
        return out * 0.5 if self._second else out

    def __init__(self, model_runner: Any) -> None:
        super().__init__(model_runner)
        self._second = model_runner.gpu_id == 1


class _WithAWrongSecond(ExampleOOTPlatform):
    def get_attention_backends(self) -> Any:
        return {ATTENTION_BACKEND: _SecondOfTwoIsWrong}


for _check, _what in {
    "data_parallel": "the second replica",
    "data_parallel_attention": "the second of the ranks that attend apart",
    "data_parallel_attention_latent": "the second of the ranks with latent rows",
}.items():
    _name = f"SecondIsWrong{_check.title().replace('_', '')}"
    globals()[_name] = mutant(
        check=f"features.{_check}",
        defect=f"{_what} decodes with half of the values",
        says=_TOKENS,
        host="sglang",
        device="example_oot",
    )(type(_name, (_WithAWrongSecond,), {"__module__": __name__, "__qualname__": _name}))


class _RowsOfTheOtherRank(ExampleOOTGraphRunner):
    def _take(self, output: Any, n: int) -> Any:
        taken = super()._take(output, n)
        taken.next_token_logits = taken.next_token_logits.roll(1, 0)
        return taken


@mutant(
    check="features.data_parallel_attention_graphs",
    defect="rows of a replayed graph are handed back one further where ranks attend apart",
    says=_TOKENS,
    host="sglang",
    device="example_oot",
)
class RowsOneFurther(ExampleOOTPlatform):
    def get_graph_runner_cls(self) -> Any:
        return _RowsOfTheOtherRank


@mutant(
    check="features.pipeline_parallel_eager",
    defect="what a stage adds to its input is not handed to the next",
    says=_TOKENS,
    host="sglang",
    device="example_oot",
)
class ResidualIsLost(Hooked):
    _target = f"{_GROUP}.send_tensor_dict"

    @staticmethod
    def _wrong(original: Any, group: Any, tensor_dict: Any, *rest: Any, **named: Any) -> Any:
        changed = dict(tensor_dict)
        if "residual" in changed:
            changed["residual"] = torch.zeros_like(changed["residual"])
        return original(group, changed, *rest, **named)


@mutant(
    check="features.pipeline_and_tensor_parallel",
    defect="a stage of two ranks puts the halves of what it receives together in the wrong order",
    says=_TOKENS,
    host="sglang",
    device="example_oot",
)
class HalvesTurned(Hooked):
    _target = f"{_GROUP}.recv_tensor_dict"

    @staticmethod
    def _wrong(original: Any, group: Any, *rest: Any, **named: Any) -> Any:
        received = original(group, *rest, **named)
        for name in ("hidden_states", "residual"):
            if received and isinstance(received.get(name), torch.Tensor):
                flat = received[name].flatten()
                received[name] = flat.roll(flat.numel() // 2).view(received[name].shape)
        return received


class _HalfOfEachBlock(TransferEngine):
    def batch_transfer_sync_write(self, session: str, addresses: Any, peers: Any, lengths: Any) -> int:
        return super().batch_transfer_sync_write(
            session, addresses, peers, [length // 2 for length in lengths]
        )


@mutant(
    check="features.prefill_and_decode_apart_latent",
    defect="the second half of every block is left out, and reported as sent",
    says="transformers",
    host="sglang",
    device="example_oot",
)
class TransferOfHalfBlocks(ExampleOOTPlatform):
    def get_transfer_engine_cls(self) -> Any:
        return _HalfOfEachBlock


class _LastLayerStaysOut(HostMemory):
    def copy_pages_in(self, sources: Any, targets: Any, *rest: Any) -> None:
        super().copy_pages_in(sources[:-1], targets[:-1], *rest)


@mutant(
    check="features.hierarchical_cache_latent",
    defect="the last buffer of what was evicted does not come back",
    says=_TOKENS,
    host="sglang",
    device="example_oot",
)
class LastLayerStaysOut(ExampleOOTPlatform):
    def get_host_memory_cls(self) -> Any:
        return _LastLayerStaysOut


class _WritesNothing(HostMemory):
    def copy_pages_out(self, *args: Any) -> None:
        """Leaves host memory, and so the files, as they are."""


@mutant(
    check="features.hierarchical_cache_files",
    defect="files are written of host memory that no page was copied to",
    says="with both caches emptied",
    host="sglang",
)
class FilesOfNothing(ExampleOOTPlatform):
    def get_host_memory_cls(self) -> Any:
        return _WritesNothing


class _ForgetsPrefixes(ExampleOOTAttentionBackend):
    def forward_extend(self, *args: Any, **kwargs: Any) -> Any:
        out = super().forward_extend(*args, **kwargs)
        batch = kwargs.get("forward_batch", args[4] if len(args) > 4 else None)
        shared = batch.extend_prefix_lens.max() if batch.extend_prefix_lens is not None else 0
        return out * 0.25 if shared else out


@mutant(
    check="features.router_before_two_engines",
    defect="a prompt that an engine has in its cache gets other tokens: the second round through the router differs",
    says=_TOKENS,
    host="sglang",
)
class WrongFromTheCache(ExampleOOTPlatform):
    def get_attention_backends(self) -> Any:
        return {ATTENTION_BACKEND: _ForgetsPrefixes}
