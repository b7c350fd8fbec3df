"""A name of the host is not asked for with a silent default: where SGLang renames it, the default would be the answer
for ever. What must be asked so stands below with the reason, and is in the installed SGLang.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sglang_platform.devtools.source.opening import open_host

ROOT = Path(__file__).parents[4]
PACKAGES = ("core", "cuda", "rocm", "example-oot")

# Rooms that read source, hook any function, or know only their own objects.
_WITHOUT_THE_HOST = {
    *("installed", "doctor", "hooks", "discovery", "cli", "template", "contract", "registries"),
    *("correction.py", "host.py"),
}

OF_THE_HOST: dict[str, dict[str, str]] = {
    "core/attention/speculative.py": {
        "topk": "drafts of n-grams have none: then the mask is read, also of a chain"
    },
    "core/sglang/arguments/check.py": {"ATTENTION_BACKENDS": "a process that has not loaded the table"},
    "core/sglang/evidence/host_registry.py": {
        "HookRegistry": "a process that has not loaded SGLang's registry",
        "_hooks": "the same",
    },
    "core/sglang/repairs/http_errors.py": {"max_model_len": "an answer, or the refusal in its place"},
    "core/sglang/memory/saver.py": {
        "_init_data_ptrs_and_strides": "MHA pools since 0.5.16",
        "_kv_buffer_descs": "MHA pools since 0.5.16",
        "data_ptrs": "MHA pools before 0.5.16",
    },
    "core/sglang/registries/quant_wrappers.py": {
        "quant_method": "layers without a quantised product have none"
    },
    "core/sglang/quantisation/checkpoints.py": {"hf_text_config": "a record in the making"},
    "core/sglang/arguments/server_args.py": {
        "_declarations_materialized": "records that can be locked, 0.5.15 to 0.5.18",
        "device": "a record in the making",
        "model_path": "a record in the making",
    },
    "core/sglang/speculative/launch.py": {"speculative_algorithm": "a record in the making"},
    "core/sglang/memory/worker.py": {"get_key_buffer": "tells pools from other attributes of a pool"},
    "core/sglang/graphs/decode.py": {"lora_manager": "model runners with adapters, up to 0.5.19"},
    "core/sglang/pools/buffers.py": {
        "_kv_buffer_descs": "MHA pools since 0.5.16",
        "data_ptrs": "MHA pools before 0.5.16",
        "k_buffer": "latent pools have none",
        "supported_dtypes": "says what a device's pool stores; one that derives from the host's class has none",
    },
    "core/sglang/pools/rebased.py": {"loc": "a tensor of slots, or the host's object around it"},
    "core/sglang/repairs/request_check.py": dict.fromkeys(
        (
            "input_embeds",
            "positional_embed_overrides",
            "session_id",
            "session_params",
        ),
        "requests of several classes and releases, each with fields of its own",
    ),
    "core/sglang/disaggregation.py": {
        "disagg_kv_sender": "of the request, which is one of several arguments"
    },
    "example_oot/graph_runner.py": {"tensors": "of a pipeline stage that is not the last"},
    "example_oot/more_ops.py": {"mrope_interleaved_glm": "of one of the classes that rotate by three axes"},
}

OTHERS: dict[str, set[str]] = {
    "core/attention/backend.py": {"slot_map"},
    "core/portable/torch/device.py": {
        "get_device_capability",
        "get_device_name",
        "get_device_properties",
        "is_integrated",
        "mem_get_info",
        "total_memory",
        "uuid",
    },
    "core/graph/stage.py": {"data_ptr"},
    "core/sglang/disaggregation.py": {"Event"},
    "core/sglang/groups/communicator.py": {"disabled"},
    "core/sglang/attention/data_parallel.py": {"to"},
    "core/sglang/start/child_processes.py": {"func"},
    "core/sglang/arguments/check.py": {"device_count"},
    "core/sglang/attention/choices.py": {"get_attention_backends"},
    "core/sglang/speculative/draft_steps.py": {"forward_draft"},
    "core/sglang/arguments/host_limits.py": {"fp8"},
    "core/sglang/start/llm_plugin_loop.py": {"_collects_for_core"},
    "core/sglang/pools/rebased.py": {"_pool_kind"},
    "core/sglang/pools/hierarchical_cache.py": {"_host_memory"},
    "cuda/kernels/tuning/__init__.py": {"shared_memory_per_block_optin"},
    "example_oot/device.py": {"index"},
    "example_oot/diffusion/platform.py": {"name"},
    "example_oot/device_graph.py": {"Graph"},
}
"""Names of torch, of Python, and of our own objects."""

_OF_OLDER_HOSTS = {"_declarations_materialized"}
_EVERYWHERE = {"_plugin_origin"}


def test_what_is_asked_for_with_a_default_is_told_and_why() -> None:
    found: dict[str, set[str]] = {}
    for path, name in _asked():
        found.setdefault(path, set()).add(name)
    told = {path: {*OF_THE_HOST.get(path, {}), *OTHERS.get(path, ())} for path in {*OF_THE_HOST, *OTHERS}}
    assert found == told, "ask for a host's name without a default, or say here why it may be missing"


@pytest.mark.host
def test_the_hosts_names_are_in_the_installed_host() -> None:
    host = open_host("installed", {"sglang"})
    names = {name for of_file in OF_THE_HOST.values() for name in of_file} - _OF_OLDER_HOSTS
    for module in host.served():
        text = host.text(module).decode(errors="replace") if module.startswith("sglang.srt.") else ""
        names -= {name for name in names if re.search(rf"(\.|def |class |^\s+){name}\b", text, re.MULTILINE)}
        if not names:
            return
    pytest.fail(f"SGLang has no such names, and nothing noticed: {sorted(names)}")


def _asked() -> Iterator[tuple[str, str]]:
    """(file, name) of each `getattr` with a default and each `hasattr` with a name that is written out."""
    for package in PACKAGES:
        source = ROOT / "packages" / f"sglang-platform-{package}" / "src" / "sglang_platform"
        for path in sorted(source.rglob("*.py")):
            place = path.relative_to(source)
            if place.parts[:1] == ("core",) and place.parts[1] in _WITHOUT_THE_HOST:
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                    continue
                defaulted = node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) == 3)
                name = node.args[1] if defaulted else None
                if (
                    isinstance(name, ast.Constant)
                    and not name.value.startswith("__")
                    and name.value not in _EVERYWHERE
                ):
                    yield place.as_posix(), name.value
