"""The twenty defects of `my_accelerator`, in the order in which the suite prints them, and what its vendor did of each.

Every edit is what the printed fix says, and no more; `words` are those of the fix that it follows.
"""

from __future__ import annotations

from typing import NamedTuple


class Repair(NamedTuple):
    """One printed failure and what was done. `check` names a row of a table too. edits: (file, what is replaced, by
    what)."""

    kind: str
    defect: str
    check: str
    words: tuple[str, ...]
    edits: tuple[tuple[str, str, str], ...]


_PACKAGE = "src/my_accelerator"
_INIT, _PLATFORM, _DEVICE = (f"{_PACKAGE}/{name}.py" for name in ("__init__", "platform", "device"))
_POOL, _ALLOCATOR, _ATTENTION = (f"{_PACKAGE}/{name}.py" for name in ("kv_pool", "allocator", "attention"))
_THREAD = '    threading.Thread(target=_heartbeat, name="my-accelerator-heartbeat", daemon=True).start()\n'
_HANDLED = "def forward_{}(self, q, k, v, layer, forward_batch, save_kv_cache=True, {}**kwargs)"

REPAIRS = (
    Repair(
        "dependency",
        "psutil is imported and no requirement",
        "packaging.dependencies_are_declared",
        ("add it to dependencies in pyproject.toml",),
        (("pyproject.toml", '"torch"]', '"torch", "psutil"]'),),
    ),
    Repair(
        "process",
        "a heartbeat thread starts when the plugin is asked",
        "packaging.asking_leaves_the_process_alone[row=threads]",
        ("start threads in init_backend()",),
        (
            (_INIT, _THREAD, ""),
            (_INIT, "def _heartbeat():", f"def start_heartbeat():\n{_THREAD}\n\ndef _heartbeat():"),
            (_PLATFORM, "import ops\n", "import ops, start_heartbeat\n"),
            (
                _PLATFORM,
                '        ops.register("my_accelerator")\n',
                '        ops.register("my_accelerator")\n        start_heartbeat()\n',
            ),
        ),
    ),
    Repair(
        "logging",
        "the package configures the root logger",
        "packaging.asking_leaves_the_process_alone[row=logging]",
        ("log to logging.getLogger(__name__)", "no basicConfig"),
        (
            (
                _INIT,
                'logging.basicConfig(level=logging.INFO, format="%(asctime)s my_accelerator %(message)s")\n',
                "",
            ),
        ),
    ),
    Repair(
        "signature",
        "get_compile_backend() takes no mode",
        "contract.platform_is_created",
        ("an override takes the contract's parameters",),
        ((_PLATFORM, "get_compile_backend(self)", "get_compile_backend(self, mode=None)"),),
    ),
    Repair(
        "packaging",
        "the entry point of the diffusion runtime names a module that is not there",
        "contract.diffusion_platform_is_created",
        ("correct the entry point my_accelerator = my_accelerator.diffusion:activate of my-accelerator",),
        (("pyproject.toml", "my_accelerator.diffusion:activate", "my_accelerator.video:activate"),),
    ),
    Repair(
        "import",
        "a module sets torch's threads",
        "packaging.platform_module_leaves_the_process_alone[row=process]",
        ("set up in init_backend()",),
        (
            (_DEVICE, "torch.set_num_threads(1)  # one core feeds the card\n\n", ""),
            (
                _PLATFORM,
                "    def init_backend(self):\n",
                "    def init_backend(self):\n        torch.set_num_threads(1)\n",
            ),
            (
                _PLATFORM,
                '"""What the card can do, and its parts."""\n',
                '"""What the card can do, and its parts."""\n\nimport torch\n',
            ),
        ),
    ),
    Repair(
        "signature",
        "alloc_decode() has the parameters of an older release",
        "contract.parts_have_their_interface",
        ("write alloc_decode(seq_lens, seq_lens_cpu, last_loc)",),
        (
            (
                _ALLOCATOR,
                "alloc_decode(self, seq_lens, last_loc)",
                "alloc_decode(self, seq_lens, seq_lens_cpu, last_loc)",
            ),
        ),
    ),
    Repair(
        "units",
        "memory in use is in MiB",
        "contract.memory_usage_covers_allocations",
        ("return bytes",),
        ((_DEVICE, "(memory.total - memory.available) / 1024**2", "float(memory.total - memory.available)"),),
    ),
    Repair(
        "identity",
        "the uuid is another in every process",
        "contract.device_operations_do_what_they_promise[row=reindexed processes]",
        ("from what the driver reports of the hardware", "id(), hash(), a counter, random numbers"),
        (
            (_DEVICE, "import uuid\n", "from pathlib import Path\n"),
            (
                _DEVICE,
                "_UUID = str(uuid.uuid4())",
                '_SERIAL = Path("/etc/machine-id")  # the board has no number of its own',
            ),
            (_DEVICE, "{_UUID}", "{_SERIAL.read_text().strip()}-{device_id}"),
        ),
    ),
    Repair(
        "capability",
        "piecewise graphs are declared, and no backend is there",
        "contract.graph_capture_has_a_runner",
        ("get_piecewise_backend_cls()", "piecewise_graph=False"),
        ((_PLATFORM, "piecewise_graph=True, ", ""),),
    ),
    Repair(
        "allocator",
        "pages are counted as if no page had room",
        "memory.random_histories_add_up",
        ("new pages", "ceil(seq_len / page_size) - ceil(prefix_len / page_size)"),
        (
            (
                _ALLOCATOR,
                "        new = seq_lens_cpu - prefix_lens_cpu\n"
                "        wanted = int(((new + self.page_size - 1) // self.page_size).sum())\n",
                "        held, needed = (-(-lens // self.page_size) for lens in (prefix_lens_cpu, seq_lens_cpu))\n"
                "        wanted = int((needed - held).sum())\n",
            ),
        ),
    ),
    Repair(
        "padding",
        "one row is kept for padding, not a page",
        "memory.store_reads_back",
        ("allocate size + page_size rows",),
        (
            (
                _POOL,
                "self.size + 1  # and the padding slot",
                "self.size + self.page_size  # and the padding page",
            ),
        ),
    ),
    Repair(
        "move",
        "rows are moved one after another",
        "memory.move_is_as_if_all_were_read_first",
        ("gather all source rows into a copy before any target row is written",),
        (
            (
                _POOL,
                "        for target, source in zip(tgt_loc.tolist(), src_loc.tolist()):\n"
                "            for buffer in (*self.k_buffer, *self.v_buffer):\n"
                "                buffer[target] = buffer[source]\n",
                "        for buffer in (*self.k_buffer, *self.v_buffer):\n"
                "            rows = buffer[src_loc.long()]\n"
                "            buffer[tgt_loc.long()] = rows\n",
            ),
        ),
    ),
    Repair(
        "dtype",
        "the scale is left out of the cast to eight bits",
        "memory.store_casts_and_scales",
        ("divide keys by k_scale and values by v_scale",),
        (
            (_POOL, "cast_rows(cache_k, self.dtype)", "cast_rows(cache_k, self.dtype, k_scale)"),
            (_POOL, "cast_rows(cache_v, self.dtype)", "cast_rows(cache_v, self.dtype, v_scale)"),
        ),
    ),
    Repair(
        "attention",
        "scores are scaled by the head's size",
        "kernels.decode_attention",
        ("multiply q.k by layer.scaling",),
        ((_ATTENTION, "layer.qk_head_dim**-0.5", "layer.scaling"),),
    ),
    Repair(
        "attention",
        "the window is one token too narrow",
        "kernels.sliding_window_attention",
        ("counts the positions before a token that it sees, besides itself",),
        ((_ATTENTION, "other <= place - layer", "other < place - layer"),),
    ),
    Repair(
        "capability",
        "sinks are declared, and not read",
        "kernels.sink_attention",
        ("take `sinks` [query heads] from forward()'s keywords", "add exp(sink) to the sum"),
        (
            (_ATTENTION, _HANDLED.format("decode", ""), _HANDLED.format("decode", "sinks=None, ")),
            (_ATTENTION, _HANDLED.format("extend", ""), _HANDLED.format("extend", "sinks=None, ")),
            (
                _ATTENTION,
                "save_kv_cache, lengths, [1] * len(lengths))",
                "save_kv_cache, sinks, lengths, [1] * len(lengths))",
            ),
            (_ATTENTION, "save_kv_cache, lengths, new)", "save_kv_cache, sinks, lengths, new)"),
            (_ATTENTION, "values, slots, layer\n", "values, slots, layer, sinks\n"),
            (_ATTENTION, "slots, layer):", "slots, layer, sinks):"),
            (_ATTENTION, "value_cache[seen], layer)", "value_cache[seen], layer, sinks)"),
            (_ATTENTION, "values, layer):", "values, layer, sinks):"),
            (
                _ATTENTION,
                '    weights = scores.masked_fill_(hidden, float("-inf")).softmax(-1)\n',
                '    scores = scores.masked_fill_(hidden, float("-inf"))\n'
                "    if sinks is not None:\n"
                "        more = sinks.float().view(heads, -1, 1, 1).expand(*scores.shape[:3], 1)\n"
                "        scores = torch.cat((scores, more), -1)\n"
                "    weights = scores.softmax(-1)[..., :m]\n",
            ),
        ),
    ),
    Repair(
        "op",
        "epsilon is outside the root",
        "kernels.op_values",
        ("epsilon inside the root",),
        (
            (
                f"{_PACKAGE}/ops.py",
                "mean(-1, keepdim=True).sqrt() + op.variance_epsilon",
                "mean(-1, keepdim=True).add(op.variance_epsilon).sqrt()",
            ),
        ),
    ),
    Repair(
        "graph",
        "positions are those of the capture",
        "graphs.every_input_is_copied",
        ("copy positions", "at every replay"),
        (
            (
                f"{_PACKAGE}/graphs.py",
                "        inputs.out_cache_loc[:n]",
                "        inputs.positions[:n].copy_(forward_batch.positions)\n        inputs.out_cache_loc[:n]",
            ),
        ),
    ),
    Repair(
        "collective",
        "sums are those of all ranks",
        "distributed.communicator_in_groups",
        ("pass group=self.device_group",),
        (
            (
                f"{_PACKAGE}/communicator.py",
                "dist.all_reduce(total)",
                "dist.all_reduce(total, group=self.device_group)",
            ),
        ),
    ),
)
