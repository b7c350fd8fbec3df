"""With an engine: the installed SGLang serves through the platform, and the counters of its processes prove it.

Run in the environment of one version: `python -m ...versions.serve --platform NAME --out F --models DIR`. The
generation is compared token by token with the transformers of that environment.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from pathlib import Path
from typing import Any

from sglang_platform.conformance.host import processes, reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineProcess
from sglang_platform.core import counters

__all__ = ["main", "serve"]

_PROMPTS = reference.prompts((1, 17, 64, 300))
_NEW_TOKENS = 24

# Counters of the scheduler that must be above zero: the platform's parts, and answers carried in by hooks.
_PARTS = {
    "KV pool": "example_oot.kv_pool.stores",
    "paged allocator": "example_oot.paged_allocator.decodes",
    "attention": "example_oot.attention.decodes",
    "graph replays": "example_oot.graph.replays",
    "fused ops": "example_oot.fused_ops.calls",
}
_CARRIED = {
    "post_load_model": "probe.post_load_model",
    "init_backend": "probe.init_backend",
    "group coordinator device": "probe.get_group_coordinator_device",
    "pin memory": "probe.is_pin_memory_available",
}
_HOSTS_OWN = (
    "host.attention.calls",
    "host.kv_pool.stores",
    "host.paged_allocator.calls",
    "host.graph.replays",
)


def serve(platform: str, architecture: str, models: Path) -> dict[str, Any]:
    """One engine, asked once. Raises EngineFailed with the engine's last lines where it does not serve."""
    checkpoint = make_checkpoint(models / architecture, architecture)
    expected = reference.greedy(checkpoint, _PROMPTS, _NEW_TOKENS)
    arguments = {
        "model_path": str(checkpoint),
        "page_size": 16,
        "disable_cuda_graph": False,
        "chunked_prefill_size": 4096,
        "torch_compile_max_bs": 8,
        "watchdog_timeout": 600,
    }
    started = time.perf_counter()
    with EngineProcess(platform, arguments) as engine:
        ready = time.perf_counter() - started
        replies = engine.call("generate", input_ids=_PROMPTS, max_new_tokens=_NEW_TOKENS)
        scheduler = engine.counters()
        everywhere = counters.read_all(engine.report_dir)
        reports = processes.read(engine.report_dir)
        settled = engine.call("server_args", names=["max_running_requests", "attention_backend"])
    return {
        "equal": [reply["output_ids"] for reply in replies] == expected,
        "tokens": sum(len(reply["output_ids"]) for reply in replies),
        "parts": {name: scheduler.get(counter, 0) for name, counter in _PARTS.items()},
        "hosts_own": {name: scheduler.get(name, 0) for name in _HOSTS_OWN},
        "carried": {name: scheduler.get(counter, 0) for name, counter in _CARRIED.items()},
        "server_args": settled,
        "processes": [_process(report, everywhere.get(report["pid"], {})) for report in reports],
        "limits": reports[0]["limits"] if reports else [],
        "warnings": sorted({warning for report in reports for warning in report["warnings"]}),
        "seconds_to_ready": round(ready, 1),
    }


def _process(report: dict[str, Any], counts: dict[str, int]) -> dict[str, Any]:
    return {
        "kinds": [
            name.rpartition(".")[2] for name in counts if name.startswith("probe.process.") and counts[name]
        ],
        "class": report["platform"]["class"],
        "hooks": len(report["hooks"]),
        "refused": [hook["target"] for hook in report["hooks"] if hook["state"] == "failed"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--platform", default="host_matrix_probe")
    parser.add_argument("--architecture", default="llama")
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    try:
        result = serve(asked.platform, asked.architecture, asked.models)
    except Exception:  # noqa: BLE001 - a version that does not serve is a row of the matrix
        result = {"error": traceback.format_exc(limit=-2)[-4000:]}
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(result, indent=1))
    print(json.dumps(result)[:2000])


if __name__ == "__main__":
    main()
