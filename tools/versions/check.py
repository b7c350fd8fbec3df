"""Without an engine: the installed SGLang asks the platform everything it asks, and uses the answers.

Run in the environment of one version, with the platform named: `python -m ...versions.check --platform NAME --out F`.
Each check is a function of the platform that returns what was seen, or raises.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import inspect
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

from sglang_platform.conformance.host.stacks import completed
from sglang_platform.core import HookRegistry, SRTPlatform, current_platform
from sglang_platform.core.counters import snapshot
from sglang_platform.core.sglang.arguments.host_limits import limits_of
from sglang_platform.core.sglang.device import stubs
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.ops.fused import register_fused_ops
from sglang_platform.core.sglang.pools.kinds import host_pool
from sglang_platform.core.sglang.versions import facts

__all__ = ["CHECKS", "main"]

Check = Callable[[Any], str]
CHECKS: dict[str, Check] = {}


def check(title: str) -> Callable[[Check], Check]:
    def register(function: Check) -> Check:
        CHECKS[title] = function
        return function

    return register


@check("discovered")
def discovered(platform: Any) -> str:
    assert platform is current_platform, f"the host holds {platform!r}"
    assert platform.device_name == os.environ["SGLANG_PLATFORM"], platform.device_name
    return "the host's platform object is core's"


@check("re-based")
def rebased(platform: Any) -> str:
    from sglang.srt.platforms.interface import SRTPlatform as HostPlatform

    assert isinstance(platform, HostPlatform)
    assert isinstance(platform, SRTPlatform)
    return f"{type(platform).__qualname__} on the host's SRTPlatform"


@check("every factory answered")
def factories(platform: Any) -> str:
    """Every public method of the host's own interface is called with what its signature asks for."""
    from sglang.srt.platforms.interface import SRTPlatform as HostPlatform

    given = {"kind": "mha", "quantization": "fp8", "algorithm": "EAGLE", "phase": "draft_decode", "local_rank": 0,
             "backend": "triton", "server_args": SimpleNamespace(disable_cuda_graph=True, attention_backend=None),
             "device_id": 0, "device": None, "model": None, "quant": "fp8", "mode": None, "seed": None}  # fmt: skip
    asked, refused = [], []
    for name in dir(HostPlatform):
        host_method = inspect.getattr_static(HostPlatform, name)
        if name.startswith("_") or not (callable(host_method) or isinstance(host_method, classmethod)):
            continue
        function = host_method.__func__ if isinstance(host_method, classmethod) else host_method
        wanted = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
        if any(parameter not in given for parameter in wanted):
            raise AssertionError(f"{name}{tuple(wanted)}: nothing to call it with")
        try:
            getattr(platform, name)(**{parameter: given[parameter] for parameter in wanted})
        except (NotImplementedError, ValueError) as error:
            refused.append(f"{name}: {error}" if not str(error) else name)
        asked.append(name)
    assert not any(name.endswith(": ") for name in refused), f"refused without a reason: {refused}"
    return f"{len(asked)} asked, {len(refused)} refused with a reason" + (
        f": {', '.join(refused)}" if refused else ""
    )


@check("capability flags")
def flags(platform: Any) -> str:
    if facts().capabilities_struct:
        assert platform.capabilities.graph_capture is True
        return "capabilities struct"
    assert platform.support_cuda_graph() is True
    assert platform.support_piecewise_cuda_graph() is False
    return "support_cuda_graph() and its kin"


def _pool(platform: Any, kind: str, **shape: Any) -> Any:
    import torch

    if facts().capabilities_struct:
        cls = platform.get_kv_pool_cls(kind=kind)
    else:
        word = (
            host_pool(kind).__name__.removesuffix("TokenToKVPool").lower()
        )  # the name that this release gives the kind
        cls = getattr(platform, f"get_{word}_kv_pool_cls")()
    assert issubclass(cls, host_pool(kind)), cls
    stray = dict.fromkeys(facts().stray_pool_keywords) if kind == "mla" else {}
    return cls(64 * 3, page_size=64, dtype=torch.float32, layer_num=2, device="cpu", enable_memory_saver=False,
               start_layer=3, end_layer=4, **shape, **stray)  # fmt: skip


@contextlib.contextmanager
def _without_context_parallel() -> Iterator[None]:
    """What an engine has published before it stores; versions without it need nothing."""
    with contextlib.ExitStack() as stack:
        for fields in ({"attn_dcp_size": 1, "dcp_enabled": False}, {"dcp_enabled": False}):
            with contextlib.suppress(ImportError, AttributeError, TypeError, ValueError):
                from sglang.srt.runtime_context import get_parallel

                stack.enter_context(get_parallel().override(**fields))
                break
        yield


@check("MHA pool written through")
def mha_pool(platform: Any) -> str:
    import torch

    loc = torch.tensor([70, 190, 65])
    k, v = torch.randn(3, 2, 8), torch.randn(3, 2, 8)
    with _without_context_parallel():
        pool = _pool(platform, "mha", head_num=2, head_dim=8)
        pool.set_kv_buffer(SimpleNamespace(layer_id=4), loc, k, v)
    assert torch.equal(pool.get_key_buffer(4)[loc], k)
    assert torch.equal(pool.get_value_buffer(4)[loc], v)
    assert not pool.get_key_buffer(3).any()
    stores = snapshot().get("example_oot.kv_pool.stores", 0)
    assert stores == 1, f"the device stored {stores} times"
    return "stored by the device, read back"


@check("MLA pool written through")
def mla_pool(platform: Any) -> str:
    return _latent_pool(platform, "mla")


@check("DSA pool written through")
def dsa_pool(platform: Any) -> str:
    return _latent_pool(platform, "dsa", index_head_dim=128, kv_cache_dim=12)


def _latent_pool(platform: Any, kind: str, **shape: Any) -> str:
    import torch

    before = snapshot().get("probe.mla.stores", 0)
    loc, rows = torch.tensor([66, 130]), torch.randn(2, 1, 12)
    with _without_context_parallel():
        pool = _pool(platform, kind, kv_lora_rank=8, qk_rope_head_dim=4, **shape)
        pool.set_kv_buffer(SimpleNamespace(layer_id=4), loc, rows, rows[..., :8])
    assert torch.equal(pool.get_key_buffer(4)[loc], rows)
    assert torch.equal(pool.get_value_buffer(4)[loc], rows[..., :8])
    assert snapshot()["probe.mla.stores"] == before + 1
    return "stored by the device, read back"


@check("paged allocator")
def allocator(platform: Any) -> str:
    import torch

    cls = platform.get_paged_allocator_cls()
    assert issubclass(cls, load(facts().paged_allocator))
    made = cls(16 * 8, page_size=16, dtype=torch.float32, device="cpu", kvcache=None, need_sort=False)
    assert made.available_size() == 128

    def lens(*values: int) -> Any:
        return torch.tensor(values, dtype=torch.int64)

    taken = made.alloc_extend(
        prefix_lens=lens(0, 0), prefix_lens_cpu=lens(0, 0), seq_lens=lens(20, 5), seq_lens_cpu=lens(20, 5),
        last_loc=lens(-1, -1), extend_num_tokens=25)  # fmt: skip
    assert len(set(taken.tolist())) == 25
    assert min(taken.tolist()) >= 16, "slot of the padding page"
    more = made.alloc_decode(seq_lens=lens(21, 6), seq_lens_cpu=lens(21, 6), last_loc=taken[[19, 24]])
    assert more.tolist() == [taken[19] + 1, taken[24] + 1]
    assert made.available_size() == 128 - 3 * 16
    made.free(torch.cat((taken, more)))
    assert made.available_size() == 128
    return "extend, decode and free add up"


@check("graph runner class")
def graph_runner(platform: Any) -> str:
    cls = platform.get_graph_runner_cls()
    question, replay = facts().graph_calls
    assert callable(getattr(cls, question))
    assert callable(getattr(cls, replay))
    return f"{question}() and {replay}()"


@check("attention backend")
def attention(platform: Any) -> str:
    platform.init_backend()
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
    from sglang.srt.layers.attention.base_attn_backend import AttentionBackend

    names = list(platform.get_attention_backends())
    for name in names:
        assert issubclass(ATTENTION_BACKENDS[name], AttentionBackend)
    from sglang.srt.plugins import load_plugins

    load_plugins()
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    parsed = parser.parse_args(["--model-path", "none", "--attention-backend", names[0]])
    assert parsed.attention_backend == names[0]
    return "registered, a choice of --attention-backend"


@check("dispatch key")
def dispatch(platform: Any) -> str:
    served = register_fused_ops(platform.get_dispatch_key_name())
    assert served, "no forward is registered"
    return f"{len(served)} ops on {load(facts().op_class).__name__}"


@check("hooks in place")
def hooks(platform: Any) -> str:
    """After `load_plugins()` every hook of the adapter, soft ones too, is in place or waits for its module."""
    report = HookRegistry.report()
    failed = [one for one in report if one["state"] == "failed"]
    assert not failed, failed
    return f"{len(report)} registered, none refused"


@check("message queue without a name")
def message_queue(platform: Any) -> str:
    """The ranks' shared memory is gone with those who use it; in a process of its own, which asked for no platform."""
    done = completed([sys.executable, "-m", f"{__package__}.message_queue"], seconds=300)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout.split(maxsplit=1)[1].strip()


@check("pin memory")
def pin_memory(platform: Any) -> str:
    from sglang.srt.utils import common

    before = snapshot()["probe.is_pin_memory_available"]
    assert common.is_pin_memory_available() is False
    assert snapshot()["probe.is_pin_memory_available"] == before + 1
    return "the host's helper asks the platform"


@check("Triton off")
def triton_off(platform: Any) -> str:
    from sglang.srt.utils import common

    assert common.support_triton("host_matrix_probe") is False
    return "the host's helper follows capabilities.supports_triton"


@check("quantisation config")
def quantisation(platform: Any) -> str:
    from sglang.srt.layers import quantization

    before = snapshot()["probe.get_quantization_config"]
    quantization.get_quantization_config("fp8")
    assert snapshot()["probe.get_quantization_config"] == before + 1
    return "asked for a method of the host"


@check("stub modules")
def stub_modules(platform: Any) -> str:
    name = "host_matrix_absent_library"  # no distribution carries it: the probe platform names it as a stub
    assert importlib.import_module(name).__name__ in stubs.served()
    return ", ".join(stubs.served())


@check("light start on pretended cards")
def light_start(platform: Any) -> str:
    """An H100 and an MI300X without a compiled library, with our packages. CUDA's start wants `sgl_kernel` before
    0.5.15, which describe one of its operators to torch."""
    from tools.pretended_cards.page import Setup, surveyed

    old = Version(importlib.metadata.version("sglang")) < Version("0.5.15")
    for architecture in ("sm_90", "gfx942"):
        imports = surveyed(Setup(architecture, True, ()))["imports"]
        lost = {module: why for module, why in imports.items() if why}
        if old and architecture == "sm_90":
            assert lost, "it starts, and docs/backends.md says that it does not"
            assert all("sgl_kernel" in why for why in lost.values()), lost
        else:
            assert not lost, f"{architecture}: {lost}"
    return "HIP alone: CUDA wants sgl_kernel" if old else "CUDA and HIP"


@check("limits reported")
def limits(platform: Any) -> str:
    found = limits_of(platform)
    assert any(limit.name == "capabilities.fp8" for limit in found), found
    return "; ".join(limit.name for limit in found)


def _torch_wanted() -> str:
    """The torch that the installed SGLang pins in its metadata."""
    wanted = map(Requirement, importlib.metadata.requires("sglang") or [])
    return next((str(one.specifier).removeprefix("==") for one in wanted if one.name == "torch"), "any")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    warnings.simplefilter("ignore")
    import sglang.srt.platforms as host

    results = []
    for title, function in CHECKS.items():
        started = time.perf_counter()
        try:
            seen, ok = function(host.current_platform), True
        except Exception:  # noqa: BLE001 - each check stands alone; what it raised is its result
            seen, ok = traceback.format_exc(limit=-3), False
        results.append(
            {"check": title, "ok": ok, "seen": seen, "seconds": round(time.perf_counter() - started, 2)}
        )
    names = (
        "sglang",
        "torch",
        "triton",
        "transformers",
        "sglang-platform-core",
        "sglang-platform-example-oot",
    )
    document = {
        "versions": {name: importlib.metadata.version(name) for name in names},
        "torch_wanted": _torch_wanted(),
        "checks": results,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=1))
    for one in results:
        print("ok  " if one["ok"] else "FAIL", one["check"], "-", one["seen"].strip().splitlines()[-1])


if __name__ == "__main__":
    main()
