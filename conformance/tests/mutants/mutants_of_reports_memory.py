"""Level 2, 3 and 5 mutants: pools, memory of the host, transfers, weights and outputs of graphs as other projects had
them wrong; the number of the report stands behind the defect."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import torch
from mutant import mutant
from mutants_of_host_memory import part
from patched_reference import patch, patched

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.distributed.transfer_engine import TransferEngine
from sglang_platform.core.memory.host_memory import HostMemory
from sglang_platform.core.memory.memory_saver import MemorySaver

__getattr__ = patched

row = partial(patch, __name__)

_PLACE = "        place = self._layer(layer.layer_id if layer_id_override is None else layer_id_override)\n"
_KEYS = "        self._write(self.k_buffer[place]"

row(
    "OverrideOfALaterStage",
    "pools.py",
    old=_PLACE + _KEYS,
    new="        place = self._layer(layer.layer_id)\n"
    "        if layer_id_override is not None:\n"
    "            place = layer_id_override % self.layer_num\n" + _KEYS,
    check="memory.stores_of_every_form_read_back",
    defect="layer_id_override is the place in the pool, not the layer in the model: a later stage of a pipeline stores"
    " in other layers, or in none (unified-cache-management 816)",
    says="layer_id_override",
)
row(
    "LatentOfAnUnevenStage",
    "pools.py",
    old="self.kv_buffer[self._layer(layer.layer_id)][",
    new="self.kv_buffer[self._layer(self.start_layer + layer.layer_id % self.layer_num)][",
    check="memory.mla_parts_come_in_the_type_asked_for",
    defect="get_mla_kv_buffer takes a layer's number modulo the stage's layers: right where stages are of one size"
    " (vllm-ascend 12060)",
    says="another latent part",
)
row(
    "EightBitsByWayOfSixteen",
    "rows.py",
    old="        rows = rows.to(dtype)\n",
    new="        if dtype == torch.float8_e4m3fn:\n"
    "            rows = (rows.float().contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)\n"
    "        rows = rows.to(dtype)\n",
    check="memory.store_casts_and_scales",
    defect="numbers go to e4m3 through float16 without rounding: those just over a middle go down (FreeToken 103)",
    says="and must be 0x",
)
row(
    "PackedRowsLeaveInNominalWidth",
    "dsa_pool.py",
    old="        return [super().get_cpu_copy(indices), keys]\n",
    new="        rows = [one.clone() for one in super().get_cpu_copy(indices)]\n"
    "        for one in rows:\n"
    "            one[..., self.kv_lora_rank + self.qk_rope_head_dim :] = 0\n"
    "        return [rows, keys]\n",
    check="memory.dsa_packed_rows_read_back",
    defect="of a packed row, what leaves for the host is as wide as its numbers are many: 576 of 656 bytes (SGLang"
    " 37534)",
    says="the rotated part",
)
row(
    "IndexKeysReadBeforeTheyArrive",
    "dsa_pool.py",
    old="    def get_kv_size_bytes(self) -> int:\n        return super()",
    new="    def _continuous(self, layer_id: int, seq_len: int, page_indices: torch.Tensor) -> Any:\n"
    "        counter, self.layer_transfer_counter = self.layer_transfer_counter, None\n"
    "        try:\n"
    "            return super()._continuous(layer_id, seq_len, page_indices)\n"
    "        finally:\n"
    "            self.layer_transfer_counter = counter\n\n"
    "    def get_kv_size_bytes(self) -> int:\n        return super()",
    check="memory.readers_wait_for_their_layer",
    defect="keys of the indexer are read without waiting for their layer's load (SGLang 22811)",
    says="does not wait for it",
)
row(
    "EachLayerWaitsForTheLast",
    "pools.py",
    old="wait_until(place)",
    new="wait_until(self.layer_num - 1)",
    check="memory.readers_wait_for_their_layer",
    defect="who reads a layer that comes back from the host waits until the last one is there: nothing is computed"
    " while the others arrive (SGLang 26691, unified-cache-management 656)",
    says="nothing is computed while those after its own arrive",
)
row(
    "WithinOnePageFromItsEnd",
    "allocator.py",
    old="            for token in range(start, end):\n",
    new="            inside = start % self.page_size and end % self.page_size\n"
    "            if end - start > 1 and inside and start // self.page_size == end // self.page_size:\n"
    "                slot += self.page_size - end % self.page_size\n"
    "            for token in range(start, end):\n",
    check="memory.random_histories_add_up",
    defect="an extend by several tokens that begins and ends inside one page takes the page's last slots, not those"
    " behind the prefix (SGLang 18200)",
    says="belongs to place",
)
row(
    "WholeNumbersOfAnOutputStay",
    "graph_runner.py",
    old="                into.copy_(now)\n",
    new="                if into.is_floating_point():\n                    into.copy_(now)\n",
    check="graphs.full_graph_backend_replays",
    defect="a replay writes floating outputs only: tokens and places that a draft model's graph chose are those of the"
    " capture (SGLang 15399)",
    says="of an output of 8 tensors",
)


@part(
    check="memory.host_copies_follow_their_slots",
    defect="memory of the host is registered in pieces of 1 MiB, and a copy over the end of one fails (SGLang 26691)",
    says="spans two registrations",
)
class RegistersInPieces(HostMemory):
    def register(self, tensor: Any) -> bool:
        self.__dict__.setdefault("_at", {})[tensor.data_ptr()] = tensor.nbytes
        return True

    def unregister(self, tensor: Any) -> None:
        del self.__dict__["_at"][tensor.data_ptr()]

    def copy(self, pairs: Any) -> None:
        pairs = list(pairs)
        for one in (one for pair in pairs for one in pair if one.nbytes):
            for start, size in self.__dict__.get("_at", {}).items():
                first, last = one.data_ptr() - start, one.data_ptr() + one.nbytes - 1 - start
                if 0 <= first < size and first >> 20 != last >> 20:
                    raise RuntimeError("a copy spans two registrations")
        super().copy(pairs)


@part(
    check="memory.host_copies_follow_their_slots",
    defect="rows [slots, 2, width], as pools with two heads have, are read as [2, slots, width] when slots are copied"
    " to the host or back: other tokens' heads go there (LMCache 4467)",
    says="copy_slots()",
)
class TwoHeadsAreKeysAndValues(HostMemory):
    def copy_slots(self, sources: Any, targets: Any, from_: Any, to: Any) -> None:
        for pair in zip(sources, targets, strict=True):
            two = pair[0].dim() == 3 and pair[0].shape[1] == 2
            halves = ((x.view(2, -1, x.shape[-1]) if two else x[None]) for x in pair)
            for half, other in zip(*halves, strict=True):
                super().copy_slots([half], [other], from_, to)


@part(
    check="memory.transfers_reach_their_places",
    defect="blocks that lie side by side in this engine's memory are sent as one, wherever the other's lie"
    " (vllm-ascend 10342)",
    says="rows of the peer's buffer",
)
class NeighboursHereAreNeighboursThere(TransferEngine):
    def batch_transfer_sync_write(self, session: str, addresses: Any, peers: Any, lengths: Any) -> int:
        joined: list[list[int]] = []
        for address, peer, length in zip(addresses, peers, lengths, strict=True):
            if joined and joined[-1][0] + joined[-1][2] == address:
                joined[-1][2] += length
            else:
                joined.append([address, peer, length])
        each = [list(one) for one in zip(*joined, strict=True)] or [[], [], []]
        return super().batch_transfer_sync_write(session, *each)


@part(
    check="memory.transfers_reach_their_places",
    defect="an engine neither takes nor answers while it sends: two that write to each other at once wait until both"
    " give up (open-mpi 7108)",
    says="to each other at once",
)
class OneDirectionAtATime(TransferEngine):
    def __init__(self, memory_at: Any, device: Any) -> None:
        super().__init__(memory_at, device)
        self._busy = threading.Lock()

    def batch_transfer_sync_write(self, session: str, addresses: Any, peers: Any, lengths: Any) -> int:
        with self._busy:
            return super().batch_transfer_sync_write(session, addresses, peers, lengths)

    def _write(self, address: int, content: bytearray) -> None:
        with self._busy:
            super()._write(address, content)


@part(
    check="memory.released_memory_comes_back",
    defect="memory that was released without its content holds what others left there when it is taken again: the"
    " cache's padding page and the states of new requests are NaN (vLLM 45542, 44972)",
    says="and must be zeros",
)
class WokenMemoryHoldsOthers(MemorySaver):
    def resume(self, tag: str) -> bool:
        held = self._held.get(tag, [])
        moved = super().resume(tag)
        for one in held:
            if one.content is None:
                one.storage.fill_(255)
        return moved


@part(
    check="memory.released_memory_comes_back",
    defect="the contents of all released tags are put aside together and dropped with the first resume: where the"
    " cache is taken again before the weights, the weights are zeros (vLLM 45619)",
    says="hold something else",
)
class ContentsEndWithTheFirstResume(MemorySaver):
    def resume(self, tag: str) -> bool:
        moved = super().resume(tag)
        for other, held in self._held.items():
            self._held[other] = [one._replace(content=None) for one in held]
        return moved


@mutant(
    check="contract.post_load_model_keeps_the_model",
    defect="post_load_model packs two weights of a module into a third and empties them: they cannot be updated later"
    " (vllm-ascend 15463)",
    says="changes the parameters",
)
class PostLoadEmptiesWhatItAbsorbed(ReferencePlatform):
    def post_load_model(self, model: Any) -> None:
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                packed = module.weight.data.clone()
                module.weight.data = packed.new_empty(0)
                module.forward = lambda x, m=module, w=packed: torch.nn.functional.linear(x, w, m.bias)


@mutant(
    check="contract.post_load_model_keeps_the_model",
    defect="post_load_model has linear layers multiply by a transposed copy of their weight: an update of the weight in"
    " place is not seen (SGLang 31937)",
    says="update of its weights in place",
)
class DerivedWeightsStay(ReferencePlatform):
    def post_load_model(self, model: Any) -> None:
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                copy = module.weight.data.clone()
                module.forward = lambda x, m=module, w=copy: torch.nn.functional.linear(x, w, m.bias)
