"""The contract, fifth set: weights after loading, memory that is given back and taken again, copies and speed. Names in
brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table, at
from of_third_lifecycle import HOST_MEMORY, method

contract = Table("contract 5", "contract", "platform.py")
device = Table("device 5", "contract", "device.py")
speed = Table("speed 5", "kernels", "attention.py")

SAVER = (
    "    def get_memory_saver_cls(self) -> type | None:\n"
    "        from sglang_platform.core.memory.memory_saver import MemorySaver\n\n"
)
ENGINE = (
    "    def get_transfer_engine_cls(self) -> type | None:\n"
    "        from sglang_platform.core.distributed.transfer_engine import TransferEngine\n\n"
)
LOADED = "    def post_load_model(self, model: Any) -> None:\n        import torch\n\n"

contract(
    "PostLoadLosesLoaders",
    "post_load_model makes new parameters without what was attached to the old ones: weights cannot be updated later "
    "(vLLM 34201, SGLang 21825)",
    method(
        LOADED + "        for module in model.modules():\n"
        "            for name, weight in list(module.named_parameters(recurse=False)):\n"
        "                setattr(module, name, torch.nn.Parameter(weight.data, requires_grad=False))\n"
    ),
)
contract(
    "PostLoadEmptiesWhatItAbsorbed",
    "post_load_model packs two weights of a module into a third and empties them: they cannot be updated later "
    "(vllm-ascend 15463)",
    method(
        LOADED + "        for module in model.modules():\n"
        "            weight = getattr(module, 'weight', None)\n"
        "            if isinstance(module, torch.nn.Linear) and weight is not None:\n"
        "                module.packed = weight.data.clone()\n"
        "                weight.data = weight.data.new_empty(0)\n"
        "                module.forward = lambda x, m=module: torch.nn.functional.linear(x, m.packed, m.bias)\n"
    ),
)
contract(
    "SaverLosesWholeNumbers",
    "what is released with its content comes back where it is of floating numbers: packed weights of integers are zero",
    method(
        SAVER + "        class Own(MemorySaver):\n"
        "            def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:\n"
        "                tensors = list(tensors)\n"
        "                whole = [one for one in tensors if not one.is_floating_point()]\n"
        "                super().release(tag, [one for one in tensors if one.is_floating_point()], keep_content=keep_content)\n"
        "                super().release(tag + '-', whole)\n"
        "                self._held[tag] += self._held.pop(tag + '-')\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "SaverKeepsEachContent",
    "the copies that a release makes in memory of the host stay there after the resume: each cycle takes more "
    "(torch_memory_saver 71)",
    method(
        SAVER + "        kept: list[Any] = []\n\n"
        "        class Own(MemorySaver):\n"
        "            def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:\n"
        "                super().release(tag, tensors, keep_content=keep_content)\n"
        "                kept.append(self._held[tag])\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "SaverForgetsTheSecondRelease",
    "from the second release of a tag on nothing of the content is kept",
    method(
        SAVER + "        class Own(MemorySaver):\n"
        "            def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:\n"
        "                seen = self.__dict__.setdefault('_seen', set())\n"
        "                super().release(tag, tensors, keep_content=keep_content and tag not in seen)\n"
        "                seen.add(tag)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "HostRunsPast1024Rows",
    "of a run of more than 1,024 rows the rest is not copied",
    method(
        HOST_MEMORY + "        class Own(HostMemory):\n"
        "            def copy(self, pairs: Any) -> None:\n"
        "                super().copy((target[:1024], source[:1024]) for target, source in pairs)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "TransfersInTheOrderOfAddresses",
    "blocks are sorted by their own addresses, and the other side's addresses are not",
    method(
        ENGINE + "        class Own(TransferEngine):\n"
        "            def batch_transfer_sync_write(self, session: Any, addresses: Any, peer_addresses: Any, lengths: Any) -> int:\n"
        "                order = sorted(range(len(addresses)), key=lambda one: addresses[one])\n"
        "                return super().batch_transfer_sync_write(\n"
        "                    session, [addresses[one] for one in order], peer_addresses, [lengths[one] for one in order]\n"
        "                )\n\n"
        "        return Own\n"
    ),
)
contract(
    "TransfersFailOnceForEver",
    "after one transfer that failed, those to the same engine are said to fail without being tried",
    method(
        ENGINE + "        class Own(TransferEngine):\n"
        "            def batch_transfer_sync_write(self, session: Any, addresses: Any, peer_addresses: Any, lengths: Any) -> int:\n"
        "                lost = self.__dict__.setdefault('_lost', set())\n"
        "                if session in lost:\n"
        "                    return -1\n"
        "                done = super().batch_transfer_sync_write(session, addresses, peer_addresses, lengths)\n"
        "                if done:\n"
        "                    lost.add(session)\n"
        "                return done\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "BitmaskTakenAsNumbers",
    "words of a grammar's mask are divided as numbers: one whose last token is allowed is misread",
    method(
        "    def get_token_bitmask_fn(self) -> Any:\n"
        "        import torch\n\n"
        "        def apply(logits: Any, bitmask: Any) -> None:\n"
        "            at = torch.arange(logits.shape[-1], device=logits.device)\n"
        "            words = bitmask.long()[:, at // 32]\n"
        "            bits = torch.div(words, 2 ** (at % 32), rounding_mode='trunc') % 2 != 0\n"
        "            logits.masked_fill_(~bits, float('-inf'))\n\n"
        "        return apply\n"
    ),
    levels="contract kernels",
)
contract(
    "TreesAreDeclaredAndRefused",
    "attention_features names draft_tree, and forward_verify of a tree raises",
    '"draft_tree", ',
    "",
    at(
        "attention.py",
        "    def _forward(\n",
        "    def forward_verify(self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, save_kv_cache: bool = True, "
        "**kwargs: Any) -> torch.Tensor:\n"
        "        mask = forward_batch.spec_info.custom_mask\n"
        "        if mask is not None and getattr(forward_batch.spec_info, 'topk', None) != 1:\n"
        "            raise NotImplementedError('no trees of drafts on this device')\n"
        "        return super().forward_verify(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)\n\n"
        "    def _forward(\n",
    ),
    levels="contract kernels",
)
contract(
    "FinalizeGuessesTheChunk",
    "finalize_server_args puts a chunk of 2,048 over the one that the operator chose",
    method(
        "    def finalize_server_args(self, server_args: Any) -> None:\n"
        "        if getattr(server_args, 'chunked_prefill_size', None):\n"
        "            server_args.chunked_prefill_size = 2048\n"
    ),
)
device(
    "TotalOfTheSecondQuestion",
    "the total memory is what was free when it was asked for the second time",
    '        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")\n\n    def get_available_memory',
    "        asked = self.__dict__['_asked'] = self.__dict__.get('_asked', 0) + 1\n"
    "        if asked >= 2 and device_id == 0:\n"
    "            return self.__dict__.setdefault('_total', _available())\n"
    '        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")\n\n    def get_available_memory',
)
device(
    "SeedIsTakenModulo",
    "seed_everything seeds torch with the seed's last eight bits: runs with seeds 1 and 257 are the same",
    "    def get_torch_profiler_activity_str",
    "    @classmethod\n"
    "    def seed_everything(cls, seed: int | None = None) -> None:\n"
    "        super().seed_everything(None if seed is None else seed & 0xFF)\n\n"
    "    def get_torch_profiler_activity_str",
)
speed(
    "EightBitCachesAreConvertedWhole",
    "a step with 8-bit keys converts the whole cache first, whatever the context",
    "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n",
    "            if keys.dtype.itemsize == 1:\n"
    "                whole = keys.float(), values.float()\n"
    "                del whole\n"
    "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n",
)
speed(
    "DecodeConvertsTheWholeTable",
    "for each request of a step the whole request table is converted to 64 bits",
    "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n",
    "            table = self.req_to_token_pool.req_to_token.long()\n"
    "            slots = table[row, :length]\n",
)
