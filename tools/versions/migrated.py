"""The worked plugin of `docs/migrating.md`, moved to core, in the SGLang of one environment.

`python -m ...versions.migrated --models DIR`; exit status 1, with what did not hold, unless the tokens are those of
transformers and the plugin's own parts made them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineProcess

__all__ = ["main", "problems"]

_PROMPTS = reference.prompts((5, 40, 90))
_NEW_TOKENS = 12
_OWN = ("kv_pool.stores", "attention.calls", "fused_ops.calls", "steps")
_HOSTS = ("attention.calls", "kv_pool.stores", "paged_allocator.calls")


def problems(models: Path) -> list[str]:
    """What did not hold of one engine that is asked once. Raises EngineFailed where it does not serve."""
    checkpoint = make_checkpoint(models / "llama", "llama")
    expected = reference.greedy(checkpoint, _PROMPTS, _NEW_TOKENS)
    settings = {
        "model_path": str(checkpoint),
        "page_size": 16,
        "disable_cuda_graph": True,
        "watchdog_timeout": 600,
    }
    with EngineProcess("ember", settings, environment={"EMBER_VISIBLE_DEVICES": "0"}) as engine:
        replies = engine.call("generate", input_ids=_PROMPTS, max_new_tokens=_NEW_TOKENS)
        counts = engine.counters()
        settled = engine.call("server_args", names=["attention_backend", "max_running_requests"])
    found = [] if [one["output_ids"] for one in replies] == expected else ["other tokens than transformers"]
    found += [f"ember's {part} is 0" for part in _OWN if not counts.get(f"ember.{part}")]
    found += [f"SGLang's {part} is {counts[f'host.{part}']}" for part in _HOSTS if counts.get(f"host.{part}")]
    if settled != {"attention_backend": "ember", "max_running_requests": 8}:
        found.append(f"SGLang settled on {settled}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, default=Path("models"))
    found = problems(parser.parse_args().models)
    print("\n".join(found) or "the plugin that moved to core serves, with the tokens of transformers")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
