"""Level 2 and 4 mutants: answers that name what is not there, and functions that compute something else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import torch
from mutant import mutant

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import PagedTokenToKVPoolAllocator, PlatformCapabilities
from sglang_platform.core.portable.torch.state_kernels import PORTABLE_STATE_KERNELS
from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_


@mutant(
    check="contract.parts_have_their_interface",
    defect="the memory saver is a class of the vendor's own, with other methods",
    says="has no",
)
class SaverOfItsOwn(ReferencePlatform):
    def get_memory_saver_cls(self) -> Any:
        return type("Saver", (), {"pause": lambda self: None, "resume": lambda self: None})


class AllocatorOfAnOlderRelease(PagedTokenToKVPoolAllocator):
    def alloc_decode(self, seq_lens: torch.Tensor, last_loc: torch.Tensor) -> torch.Tensor | None:  # type: ignore[override]
        return super().alloc_decode(seq_lens, seq_lens.cpu(), last_loc)


@mutant(
    check="contract.parts_have_their_interface",
    defect="the allocator's alloc_decode() has the parameters of an older release",
    says="lost parameter 'seq_lens_cpu'",
)
class AllocatorWithADriftedMethod(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        return AllocatorOfAnOlderRelease


@mutant(
    check="contract.answers_can_be_used",
    defect="the factory of the attention backend wants the pool too",
    says="is called with 1",
)
class BackendOfTwo(ReferencePlatform):
    def get_attention_backends(self) -> Any:
        return {"reference": lambda model_runner, pool: None}


@mutant(
    check="contract.device_operations_do_what_they_promise",
    defect="the compile backend of the vendor's is not registered by init_backend()",
    says="does not know",
)
class CompilerNotRegistered(ReferencePlatform):
    def get_compile_backend(self, mode: str | None = None) -> str:
        return "mychip"


@mutant(
    check="contract.device_operations_do_what_they_promise",
    defect="groups are on an accelerator that the platform is not",
    says="get_group_coordinator_device(0)",
)
class GroupsOnAnotherDevice(ReferencePlatform):
    def get_group_coordinator_device(self, local_rank: int) -> torch.device:
        return torch.device("xpu", local_rank)


@mutant(
    check="contract.answers_can_be_used",
    defect="adapters are computed by Triton kernels, which the device cannot launch",
    says="written in Triton",
)
class AdaptersInTriton(ReferencePlatform):
    def get_default_lora_backend(self) -> str:
        return "csgmv"


@mutant(
    check="contract.answers_can_be_used",
    defect="an empty module is named for one that SGLang needs and has",
    says="every machine of the host has",
)
class StubsTransformers(ReferencePlatform):
    def stub_modules(self) -> Mapping[str, ModuleType | None]:
        return {"flash_attn": None, "transformers": None}


@mutant(
    check="contract.answers_can_be_used",
    defect="block drafts are supported, and their model has no attention backend",
    says="DFLASH",
)
class DraftsWithoutAttention(ReferencePlatform):
    def supports_speculative_algorithm(self, algorithm: str) -> bool:
        return algorithm == "DFLASH"


@mutant(
    check="contract.answers_can_be_used",
    defect="a state kernel has the name that another library gives it",
    says="which nobody asks for",
)
class KernelOfAnotherName(ReferencePlatform):
    def get_state_kernels(self) -> Mapping[str, Callable[..., Any]]:
        return {"causal_conv1d": PORTABLE_STATE_KERNELS["short_convolution"]}


@mutant(
    check="contract.answers_can_be_used",
    defect="every kind that is not MLA is served as MHA",
    says="no_such_kind",
)
class AnyKindIsHeads(ReferencePlatform):
    def get_kv_pool_cls(self, *, kind: Any) -> type | None:
        return super().get_kv_pool_cls(kind="mla" if kind == "mla" else "mha")


@mutant(
    check="contract.kernel_lists_exist",
    defect="the list of kernels was renamed, and the platform names the old one",
    says="KERNEL_LIST",
)
class KernelsRenamed(ReferencePlatform):
    kernels = ("sglang_platform.core.contract.kernels:KERNEL_LIST",)


@mutant(
    check="contract.promised_capabilities_are_there",
    defect="Triton is promised because the package is installed, and it has no backend for the device",
    says="a Triton kernel does not run",
)
class TritonWithoutADriver(ReferencePlatform):
    capabilities = PlatformCapabilities(graph_capture=True, fp8=True, supports_triton=True)


def _highest_bit_first(logits: torch.Tensor, bitmask: torch.Tensor) -> None:
    bits = (bitmask[:, :, None] >> torch.arange(31, -1, -1)) & 1
    logits.masked_fill_(~bits.flatten(1)[:, : logits.shape[1]].bool(), float("-inf"))


@mutant(
    check="kernels.token_bitmask_masks_in_place",
    defect="the bits of a word are read from the highest",
    says="its logit was",
)
class MaskFromTheHighestBit(ReferencePlatform):
    def get_token_bitmask_fn(self) -> Any:
        return _highest_bit_first


def _state_of_the_first_slot(*given: Any, scale: float) -> Any:
    *first, slots, states = given
    return PORTABLE_STATE_KERNELS["gated_delta_rule"](*first, slots.clamp(max=3), states, scale=scale)


@mutant(
    check="kernels.state_kernels_follow_their_definition",
    defect="slots of requests are cut to the first four of the pool",
    says="must be",
)
class StatesOfOthers(ReferencePlatform):
    def get_state_kernels(self) -> Mapping[str, Callable[..., Any]]:
        return {**PORTABLE_STATE_KERNELS, "gated_delta_rule": _state_of_the_first_slot}

    def get_token_bitmask_fn(self) -> Any:
        return apply_token_bitmask_


@mutant(
    check="contract.answers_can_be_used",
    defect="the attention backend of a draft model is one that nobody has",
    says="which is neither",
)
class DraftBackendOfNobody(ReferencePlatform):
    def supports_speculative_algorithm(self, algorithm: str) -> bool:
        return algorithm == "EAGLE"

    def supports_speculative_draft_attention_backend(self, algorithm: str, backend: str) -> bool:
        return backend == "reference_draft"

    def get_default_speculative_draft_attention_backend(self, algorithm: str) -> str:
        return "reference_draft"


@mutant(
    check="contract.answers_can_be_used",
    defect="the default LoRA backend has a near name, which SGLang's registry does not have",
    says="'torch'",
)
class LoraBackendOfANearName(ReferencePlatform):
    def get_default_lora_backend(self) -> str:
        return "torch"


def _in_a_row(
    req_pool_indices: torch.Tensor, req_to_token: torch.Tensor, start_offset: torch.Tensor, **rest: Any
) -> torch.Tensor:
    first = req_to_token[req_pool_indices.long(), start_offset.long()].long()
    return (first[:, None] + torch.arange(rest["draft_token_num"], device=first.device)).flatten()


@mutant(
    check="kernels.draft_slots_are_read_from_the_table",
    defect="slots of drafts are counted on from the first one: behind a page they lie elsewhere",
    says="and the table has",
)
class DraftSlotsInARow(ReferencePlatform):
    def get_speculative_cache_locs_fn(self) -> Callable[..., torch.Tensor]:
        return _in_a_row


def _of_one_in_place(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    **rest: Any,
) -> torch.Tensor:
    each = zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True)
    slots = [req_to_token[row, first:end] for row, first, end in each]
    return slots[0] if len(slots) == 1 else torch.cat([req_to_token[0, :0], *slots])


@mutant(
    check="kernels.draft_slots_are_read_from_the_table",
    defect="of one request the slots are a part of the table, which the host writes to",
    says="changes when the host writes to the table",
)
class DraftSlotsAreTheTables(ReferencePlatform):
    def get_speculative_cache_locs_fn(self) -> Callable[..., torch.Tensor]:
        return _of_one_in_place
