"""The lifecycle, third set, and the classes for memory of the host, released memory and transfers."""

from __future__ import annotations

from broken import Edit, Table, at

contract = Table("contract 3", "contract", "platform.py")

BEFORE_INIT = "    def init_backend(self) -> None:\n"


def method(text: str) -> Edit:
    """The platform with one more method."""
    return at("platform.py", BEFORE_INIT, f"{text}\n{BEFORE_INIT}")


# Lifecycle

contract(
    "DefaultsOverTheOperator",
    "apply_server_args_defaults sets the page size also where the operator chose one",
    method(
        "    def apply_server_args_defaults(self, server_args: Any) -> None:\n        server_args.page_size = 16\n"
    ),
)
contract(
    "FinalizeAsksForArguments",
    "finalize_server_args reads an argument that releases before the newest lack",
    method(
        "    def finalize_server_args(self, server_args: Any) -> None:\n"
        "        if server_args.cuda_graph_config_of_device:\n"
        "            server_args.disable_cuda_graph = False\n"
    ),
)
contract(
    "LoadedModelInBfloat16",
    "post_load_model makes all weights bfloat16, a router's float32 ones too",
    method(
        "    def post_load_model(self, model: Any) -> None:\n"
        "        import torch\n\n"
        "        model.to(torch.bfloat16)\n"
    ),
)
contract(
    "LoadedModelTwice",
    "post_load_model transposes weights in place, and does it again when it is called for weights that were updated",
    method(
        "    def post_load_model(self, model: Any) -> None:\n"
        "        for weight in model.parameters():\n"
        "            if weight.dim() == 2:\n"
        "                weight.data = weight.data.t().contiguous()\n"
    ),
)
contract(
    "StubsWhatIsThere",
    "stub_modules names a module that can be imported, with an empty one in its place",
    method(
        "    def stub_modules(self) -> Any:\n"
        "        import types\n\n"
        '        return {"numpy": types.ModuleType("numpy")}\n'
    ),
)
contract(
    "OpensTheDeviceOfTheRank",
    "initialize_device takes the rank for the device's index on this machine",
    method(
        "    def initialize_device(self, rank: int, local_rank: int) -> None:\n"
        "        if rank >= 8:\n"
        '            raise RuntimeError(f"there is no device {rank}")\n'
    ),
)

# Host memory, memory saver, transfer engine

HOST_MEMORY = (
    "    def get_host_memory_cls(self) -> type | None:\n"
    "        from sglang_platform.core.memory.host_memory import HostMemory\n\n"
)
contract(
    "HostCopiesMergeRuns",
    "copies of slots from the host take runs that only the source makes for runs of both",
    method(
        HOST_MEMORY + "        class Own(HostMemory):\n"
        "            def copy_slots(self, sources: Any, targets: Any, from_: Any, to: Any) -> None:\n"
        "                import torch\n\n"
        "                if from_.numel() and bool((from_.diff() == 1).all()):\n"
        "                    to = torch.arange(int(to[0]), int(to[0]) + to.numel())\n"
        "                super().copy_slots(sources, targets, from_, to)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "HostPagesOfOneTarget",
    "of more than eight buffers that leave the device in pages, eight are copied, to the first target",
    method(
        HOST_MEMORY + "        class Own(HostMemory):\n"
        "            def copy_pages_out(self, sources: Any, targets: Any, from_: Any, to: Any, page_size: int) -> None:\n"
        "                super().copy_pages_out(sources[:8], targets[:1] if len(sources) > 8 else targets, from_, to, page_size)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "HostMemoryOfTheLastTime",
    "memory of the host of one shape and type is given out twice",
    method(
        HOST_MEMORY + "        kept: dict[Any, Any] = {}\n\n"
        "        class Own(HostMemory):\n"
        "            def allocate(self, shape: Any, dtype: Any) -> Any:\n"
        "                key = (tuple(shape), dtype)\n"
        "                if key not in kept:\n"
        "                    kept[key] = super().allocate(shape, dtype)\n"
        "                return kept[key]\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "SaverSaysNothingMoved",
    "resume says that nothing lies elsewhere, though it does: graphs are not captured again",
    method(
        "    def get_memory_saver_cls(self) -> type | None:\n"
        "        from sglang_platform.core.memory.memory_saver import MemorySaver\n\n"
        "        class Own(MemorySaver):\n"
        "            def resume(self, tag: str) -> bool:\n"
        "                super().resume(tag)\n"
        "                return False\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "SaverForgetsViews",
    "release with keep_content keeps what the last view of a storage shows, not what the storage holds",
    method(
        "    def get_memory_saver_cls(self) -> type | None:\n"
        "        from sglang_platform.core.memory.memory_saver import MemorySaver\n\n"
        "        class Own(MemorySaver):\n"
        "            def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:\n"
        "                tensors = list(tensors)\n"
        "                super().release(tag, tensors, keep_content=keep_content and len(tensors) < 2)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "TransfersOneBlock",
    "of a batch of blocks for a peer, those past the 64th are not sent",
    method(
        "    def get_transfer_engine_cls(self) -> type | None:\n"
        "        from sglang_platform.core.distributed.transfer_engine import TransferEngine\n\n"
        "        class Own(TransferEngine):\n"
        "            def batch_transfer_sync_write(\n"
        "                self, session: str, addresses: Any, peer_addresses: Any, lengths: Any\n"
        "            ) -> int:\n"
        "                return super().batch_transfer_sync_write(\n"
        "                    session, addresses[:64], peer_addresses[:64], lengths[:64]\n"
        "                )\n\n"
        "        return Own\n"
    ),
    levels="contract memory distributed",
)
contract(
    "TransferSaysItIsThere",
    "a transfer to a peer that is gone is answered with success",
    method(
        "    def get_transfer_engine_cls(self) -> type | None:\n"
        "        from sglang_platform.core.distributed.transfer_engine import TransferEngine\n\n"
        "        class Own(TransferEngine):\n"
        "            def batch_transfer_sync_write(\n"
        "                self, session: str, addresses: Any, peer_addresses: Any, lengths: Any\n"
        "            ) -> int:\n"
        "                return max(super().batch_transfer_sync_write(session, addresses, peer_addresses, lengths), 0)\n\n"
        "        return Own\n"
    ),
    levels="contract memory distributed",
)
