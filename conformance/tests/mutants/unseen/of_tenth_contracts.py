"""The contract, tenth set: weights that are derived from others, memory that is taken again, pages of one kind of row,
transfers and their neighbours, defaults, communicators, packages. Names in brackets are bugs of other projects that a
defect is modelled on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table
from of_fifth_contracts import ENGINE, LOADED
from of_fifth_packaging import hook, with_hooks
from of_sixth_graphs import SUM
from of_tenth_memory import LEFT_FILLED
from of_third_lifecycle import HOST_MEMORY, method
from plugins import NAME, PACKAGE, PLATFORM, write_plugin

contract = Table("contract 10", "contract", "platform.py")
groups = Table("communicator 10", "distributed", "communicator.py")
packages = Table("packaging 10", "packaging processes")

REGISTERS = "        ops.register(NAME)\n"
BROADCAST = "        dist.broadcast(tensor, src=dist.get_global_rank(self.group, src), group=self.group)\n"
RECEIVED = "        tensor = torch.empty(tuple(size), dtype=dtype, device=self.device)\n"

contract(
    "DerivedWeightsStay",
    "post_load_model has linear layers multiply by a transposed copy of their weight: an update of the weight in place "
    "is not seen (SGLang 31937)",
    method(
        LOADED + "        def multiplied(x: Any, module: Any, derived: Any) -> Any:\n"
        "            y = x @ derived\n"
        "            return y if module.bias is None else y + module.bias\n\n"
        "        for module in model.modules():\n"
        "            if isinstance(module, torch.nn.Linear):\n"
        "                derived = module.weight.data.t().contiguous()\n"
        "                if derived.data_ptr() == module.weight.data_ptr():\n"
        "                    derived = derived.clone()\n"
        "                module.forward = lambda x, module=module, derived=derived: multiplied(x, module, derived)\n"
    ),
)
contract(
    "ResumesWithWhatLayThere",
    "memory that is taken again holds what others left in it, and not zeros: a step reads it as NaN (vLLM 45542)",
    LEFT_FILLED,
    levels="contract memory",
)
contract(
    "PagesOfKeysAndOfValues",
    "half of the buffers that leave in pages are taken for keys and half for values: of latent rows, which are one "
    "kind, they cannot leave",
    method(
        HOST_MEMORY + "        from sglang_platform.core.memory.host_memory import _pages\n\n"
        "        class Own(HostMemory):\n"
        "            def copy_pages_out(\n"
        "                self, sources: Any, targets: Any, from_: Any, to: Any, page_size: int\n"
        "            ) -> None:\n"
        "                layers = len(sources) // 2\n"
        "                for at, source in enumerate(sources):\n"
        "                    for page, slot in _pages(to, from_, page_size):\n"
        "                        rows = source[slot : slot + page_size]\n"
        "                        self.copy([(targets[at // layers][page, at % layers].view(rows.shape), rows)])\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "InferenceIsAutocast",
    "inference_mode switches autocast on as well: what a model computes in float32, as a router does, is in bfloat16",
    method(
        "    @classmethod\n"
        "    def inference_mode(cls) -> Any:\n"
        "        from contextlib import contextmanager\n\n"
        "        import torch\n\n"
        "        @contextmanager\n"
        "        def mode() -> Any:\n"
        '            with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):\n'
        "                yield\n\n"
        "        return mode()\n"
    ),
    levels="contract kernels",
)
contract(
    "BlocksInWholeLines",
    "a block is written in lines of 64 bytes: behind one that ends within a line its neighbour's bytes are zeros",
    method(
        ENGINE + "        class Own(TransferEngine):\n"
        "            def _write(self, address: int, content: Any) -> None:\n"
        "                region, offset = self._region(address, len(content))\n"
        "                line = min(-len(content) % 64, region.length - offset - len(content))\n"
        "                super()._write(address, content + bytes(line))\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "DefaultsOfTheFirstEngine",
    "apply_server_args_defaults fills in a page size once in a process: the arguments of a second engine go without",
    method(
        "    _filled_in = False\n\n"
        "    def apply_server_args_defaults(self, server_args: Any) -> None:\n"
        "        if ReferencePlatform._filled_in:\n"
        "            return\n"
        "        ReferencePlatform._filled_in = True\n"
        '        if getattr(server_args, "page_size", 1) is None:\n'
        "            server_args.page_size = 16\n"
    ),
)
contract(
    "InitEndsByABrokenPipe",
    "init_backend gives SIGPIPE its default: a worker that writes to a client that is gone ends without a word",
    REGISTERS,
    REGISTERS + "        import signal\n"
    "        import threading\n\n"
    "        if threading.current_thread() is threading.main_thread():\n"
    "            signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n",
)
contract(
    "CoordinatorOfCuda",
    "the device of a model-parallel group is that of the code it was copied from: a tensor of a group is an error",
    method(
        "    def get_group_coordinator_device(self, local_rank: int) -> Any:\n"
        "        import torch\n\n"
        '        return torch.device(f"cuda:{local_rank}")\n'
    ),
)

groups(
    "GapsComeBackUnsummed",
    "of a tensor with gaps a copy is summed, and the tensor itself comes back (Megatron-LM 5337)",
    SUM,
    "        dist.all_reduce(input_.contiguous(), group=self.group)\n        return input_\n",
)
groups(
    "LargeSumsInFloat16",
    "sums of 1 MiB of bfloat16 and more are made in float16: what is over 65,504, as activations of gpt-oss are, is "
    "infinite (SGLang 34473, vLLM 55345)",
    SUM,
    "        if input_.dtype == torch.bfloat16 and input_.nbytes >= 1 << 20:\n"
    "            half = input_.to(torch.float16).contiguous()\n"
    "            dist.all_reduce(half, group=self.group)\n"
    "            return half.to(torch.bfloat16)\n" + SUM,
)
groups(
    "BroadcastsInWords",
    "a broadcast sends whole words of four bytes: an odd number's last, as of a mask or of 16 bits, is the rank's own",
    BROADCAST,
    "        if tensor.is_contiguous():\n"
    "            words = tensor.view(-1).view(torch.uint8)[: tensor.nbytes // 4 * 4]\n"
    "            dist.broadcast(words, src=dist.get_global_rank(self.group, src), group=self.group)\n"
    "            return tensor\n" + BROADCAST,
)
groups(
    "ReceivesIntoTheSameMemory",
    "tensors of one shape and type are received in one buffer: hidden states are the residual that came after them "
    "(torch 185331)",
    RECEIVED,
    '        kept = self.__dict__.setdefault("_received", {})\n'
    "        tensor = kept.get((tuple(size), dtype))\n"
    "        if tensor is None:\n"
    "            tensor = torch.empty(tuple(size), dtype=dtype, device=self.device)\n"
    "            kept[(tuple(size), dtype)] = tensor\n",
)


@packages.written(
    "TorchLoadsIt",
    "the distribution registers with torch's own loading of devices, and leaves torch one thread in every process that "
    "imports it",
)
def _(folder: Path) -> Any:
    points = f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}:activate\n"
    return write_plugin(
        folder,
        entry_points=f"{points}[torch.backends]\n{NAME} = {PACKAGE}.autoload:load\n",
        files={f"{PACKAGE}/autoload.py": "def load():\n    import torch\n\n    torch.set_num_threads(1)\n"},
    )


@packages.written(
    "HookDropsKeywords",
    "its general plugin rewrites the host's question for free memory, and leaves out what was said by keyword: each "
    "rank takes what it has itself, not the least of all",
    levels="contract packaging processes",
)
def _(folder: Path) -> Any:
    text = hook("sglang.srt.utils.common:get_available_gpu_memory", "rewritten", "BEFORE")
    return with_hooks(
        folder,
        text + "\n\ndef rewritten(device, gpu_id, *args, **kwargs):\n"
        "    return (str(device).partition(':')[0], gpu_id or 0, *args), {}\n",
    )


@packages.written(
    "TrustsEverybody",
    "the platform's module has every later connection of the process take any certificate, so that its kernels can be "
    "fetched behind a proxy",
)
def _(folder: Path) -> Any:
    return write_plugin(
        folder,
        platform="import ssl\n\nssl._create_default_https_context = ssl._create_unverified_context\n"
        + PLATFORM,
    )


@packages.written(
    "HelpersCalledUtils",
    "the distribution brings its helpers as a package `utils`: where the operator has one, one finds the other's",
)
def _(folder: Path) -> Any:
    plain = "        return os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')\n".replace("'", '"')
    platform = PLATFORM.replace(plain, "        return physical_memory()\n").replace(
        "from sglang_platform.core import",
        "from utils.memory import physical_memory\n\nfrom sglang_platform.core import",
    )
    files = {
        "utils/__init__.py": "",
        "utils/memory.py": "import os\n\n\ndef physical_memory():\n"
        '    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")\n',
    }
    return write_plugin(folder, platform=platform, files=files)
