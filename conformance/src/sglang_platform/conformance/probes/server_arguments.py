"""The arguments of a server as a platform is handed them: what it reads, what it assigns, and what becomes of them.

`tried(platform, own)` calls `apply_server_args_defaults` and `finalize_server_args`, each on arguments of which the
operator named nothing, and on some of which several are named, twice. `own` are values that the platform itself says it
serves: its attention backend and page sizes, each of which is named once.
"""

from __future__ import annotations

import traceback
from typing import Any

__all__ = ["KNOWN", "METHODS", "NAMED", "HostArguments", "tried"]

KNOWN: dict[str, Any] = {
    "model_path": "models/tiny", "tokenizer_path": "models/tiny", "host": "127.0.0.1", "port": 30000, "device": None,
    "dtype": "auto", "kv_cache_dtype": "auto", "page_size": None, "attention_backend": None,
    "prefill_attention_backend": None, "decode_attention_backend": None, "sampling_backend": None,
    "grammar_backend": None, "mem_fraction_static": None, "max_running_requests": None, "max_total_tokens": None,
    "chunked_prefill_size": None, "max_prefill_tokens": 16384, "context_length": None, "random_seed": None,
    "tp_size": 1, "pp_size": 1, "dp_size": 1, "ep_size": 1, "disable_radix_cache": False, "disable_cuda_graph": False,
    "enable_torch_compile": False, "torch_compile_max_bs": 32, "disable_overlap_schedule": False, "quantization": None,
    "load_format": "auto", "trust_remote_code": False, "log_level": "info", "served_model_name": None,
    "enable_memory_saver": False, "enable_hierarchical_cache": False, "speculative_algorithm": None,
    "speculative_num_steps": None, "speculative_draft_attention_backend": None, "mm_attention_backend": None,
    "moe_runner_backend": "auto", "moe_a2a_backend": "none", "disable_custom_all_reduce": False,
    "enable_dp_attention": False, "lora_backend": None, "max_loras_per_batch": 8, "enable_lora": None,
    "skip_tokenizer_init": False, "stream_interval": 1, "watchdog_timeout": 300, "download_dir": None,
    "base_gpu_id": 0, "nnodes": 1, "node_rank": 0, "dist_init_addr": None, "schedule_policy": "fcfs",
    "schedule_conservativeness": 1.0, "disaggregation_mode": "null", "enable_mixed_chunk": False,
    "enable_metrics": False, "is_embedding": False, "revision": None, "enable_symm_mem": False, "cpu_offload_gb": 0,
    "nccl_port": None,
}  # fmt: skip
"""Arguments that every supported release of SGLang has, as they are where nobody names them."""

NAMED: dict[str, Any] = {
    "mem_fraction_static": 0.37, "max_running_requests": 7, "max_total_tokens": 4096, "chunked_prefill_size": 1536,
    "context_length": 2048, "random_seed": 4321, "disable_radix_cache": True, "log_level": "warning", "port": 31999,
    "stream_interval": 3, "schedule_policy": "lpm",
}  # fmt: skip
"""What an operator names here: nothing that a device could have a reason to refuse."""

METHODS = ("get_model_config", "get_hf_config", "use_mla_backend", "enable_mamba_extra_buffer", "url")
"""What a platform may call on the arguments and only the host has."""


class HostArguments:
    """A record of arguments that tells what is done with it."""

    def __init__(self, values: dict[str, Any], words: set[str]) -> None:
        object.__setattr__(self, "_told", {"assigned": {}, "unknown": [], "asked": []})
        object.__setattr__(self, "_words", words)
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: Any) -> None:
        self._told["assigned"][name] = repr(value)
        if name not in self._words and not name.startswith("_"):
            self._told["unknown"].append(name)
        self.__dict__[name] = value

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            self._told["asked"].append(name)
        elif not name.startswith("_") and name in self._words:
            return None
        raise AttributeError(f"'ServerArgs' object has no attribute {name!r}")

    def values(self) -> dict[str, str]:
        return {name: repr(value) for name, value in self.__dict__.items() if not name.startswith("_")}


def _ways(own: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What an operator names, by how that is called."""
    sizes = own.get("page_size", [])
    rest = {**NAMED, **{name: value for name, value in own.items() if name != "page_size"}}
    ways: dict[str, dict[str, Any]] = {"nothing named": {}}
    if not sizes:
        return {**ways, "named": rest}
    return ways | {f"named, with page_size={size}": {**rest, "page_size": size} for size in sizes}


def _changed(before: dict[str, str], after: dict[str, str]) -> dict[str, list[str | None]]:
    """By name: what it was, and what it is."""
    names = dict.fromkeys((*before, *after))
    return {
        name: [before.get(name), after.get(name)] for name in names if before.get(name) != after.get(name)
    }


def tried(platform: Any, own: dict[str, Any], words: set[str]) -> dict[str, Any]:
    """For each method, by `_ways`: `answered`, `raised` and `trace`, `assigned`, `unknown`,
    `asked`, `lost` (what the operator named: what it was, what it is), `again` (what a second call changes) and
    `second` (what is otherwise for a second engine, whose arguments are the same)."""
    told = {}
    for method in ("apply_server_args_defaults", "finalize_server_args"):
        call = getattr(platform, method, None)
        if call is None:
            continue
        for how, named in _ways(own).items():
            arguments = HostArguments({**KNOWN, **named}, {*words, *KNOWN})
            one: dict[str, Any] = {}
            try:
                one["answered"] = repr(call(arguments))
                first = arguments.values()
                call(arguments)
                second = arguments.values()
                one["again"] = _changed(first, second)
                others = HostArguments({**KNOWN, **named}, {*words, *KNOWN})
                call(others)
                one["second"] = _changed(first, others.values())
                one["lost"] = {
                    name: [repr(value), second[name]]
                    for name, value in named.items()
                    if second[name] != repr(value)
                }
            except BaseException as error:  # noqa: BLE001 - told to the check
                one["raised"] = f"{type(error).__name__}: {error}"
                one["trace"] = traceback.format_exc()
            told[f"{method}/{how}"] = {**one, **arguments._told}
    return told
