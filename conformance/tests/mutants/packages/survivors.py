# ruff: noqa: E501
"""Why mutations of the packages survive: each changes nothing that can be noticed, or waits for a check."""

from __future__ import annotations

from judged import Judged

__all__ = ["explanation"]

_CORE = "packages/sglang-platform-core/src/sglang_platform/core"
_EXAMPLE = "packages/sglang-platform-example-oot/src/sglang_platform/example_oot"
_ROCM = "packages/sglang-platform-rocm/src/sglang_platform/rocm"

REASONS: dict[str, str] = {
    f"{_EXAMPLE}/torch_device/process_group.py: return True -> return False": "the answer of wait() is not looked at: what failed raises",
    f"{_CORE}/graph/runner.py: return Drafts(self.tokens, topk=1) -> return Drafts(self.tokens, topk=2)": "what a static batch says of drafts is read in an engine alone, with speculative decoding",
    f"{_EXAMPLE}/csrc/moe.cpp: const int64_t blocks = (b.inter + kRowsPerItem - 1) / kRowsPerItem; -> const int64_t blocks = (b.inter + kRowsPerItem + 1) / kRowsPerItem;": "one block more has no rows to compute",
    f"{_EXAMPLE}/csrc/extend.cpp: work += b.new_lens[r] * b.heads * b.seq_lens[r]; -> (left out)": "by how much there is to do it is decided how many threads do it",
    f"{_EXAMPLE}/csrc/decode.cpp: for (int j = 0; j < Q; ++j) x[j] = q + j * round_up(dim, W); -> for (int j = 0; j <= Q; ++j) x[j] = q + j * round_up(dim, W);": "a pointer is written behind an array on the stack, and nothing reads it: what `nox -s sanitizers` is for",
    f"{_EXAMPLE}/device_graph.py: self._handle = 0 -> self._handle = 1": "with torch 2.13 graphs are torch's, and the handle is only dropped: to drop one that is not there does nothing",
    f"{_EXAMPLE}/machine.py: share = (os.cpu_count() or 1) // positive(_RANKS, 1) -> share = (os.cpu_count() or 1) * positive(_RANKS, 1)": "the device takes no more threads than torch has, which several ranks are given fewer of",
    f"{_EXAMPLE}/torch_device/module.py: if index >= 0: -> if not index >= 0:": "of one device the current one is always the first: of two, test_device_switch_by_the_module (`tests/device`) sees it",
    f"{_CORE}/portable/triton/kernels/extend.py: begin = tl.load(start_ptr + request).to(tl.int64) -> begin = tl.load(start_ptr + request).to(tl.int32)": "the tokens of a step times the numbers of a row stay below 2**31 where prefills are computed in chunks",
    f"{_ROCM}/kernels/decode.py: table_row = table_ptr + tl.load(row_ptr + request).to(tl.int64) * table_stride -> table_row = table_ptr + tl.load(row_ptr + request).to(tl.int32) * table_stride": "a request table of more than 2**31 numbers has no place in the interpreter: kernels.far_rows_attention asks a device",
    f"{_CORE}/portable/torch/attention.py: slot_map = self.slot_map(layer, forward_batch) -> slot_map = self.slot_map(forward_batch, layer)": "the layer is looked at for SGLang's own pool of layers with a window alone: an engine's checks ask there",
    f"{_CORE}/graph/runner.py: return Drafts(self.tokens, self.tree[:bucket].view(-1)) -> return Drafts(self.tokens, self.tree[:bucket].view(-2))": "what a static batch says of drafts is read in an engine alone, with speculative decoding",
    f"{_CORE}/portable/torch/paged_attention.py: block = max(32, min(KEY_BLOCK, 4 * KEY_BLOCK // batch)) -> block = max(32, min(KEY_BLOCK, 5 * KEY_BLOCK // batch))": "how many keys are looked at at once is a matter of time",
    f"{_CORE}/memory/mla.py: require_at_least(self, 1, kv_lora_rank=kv_lora_rank) -> require_at_least(self, 2, kv_lora_rank=kv_lora_rank)": "no model has latent rows of one number",
    f"{_CORE}/portable/torch/speculative/verify.py: parents.scatter_(1, torch.where(first_child < 0, n, first_child), nodes) -> parents.scatter_(1, torch.where(first_child <= 0, n, first_child), nodes)": "node 0 is the root, and nobody's child",
    f"{_CORE}/portable/torch/build.py: if path.is_file(): -> if not path.is_file():": "its test starts a process that looks for modules in its own places: changed by hand, test_the_build_is_read_without_importing_torch fails",
}


def explanation(judged: Judged) -> str | None:
    """The reason, or None where nobody has given one."""
    return REASONS.get(judged.name)
