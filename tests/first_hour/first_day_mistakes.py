"""The usual mistakes of a vendor's first day, planted in the package that `docs/first_hour.md` makes."""

from __future__ import annotations

from typing import NamedTuple

from installed_plugin import Edit

__all__ = ["MISTAKES", "Mistake"]

_SOURCES = "src/sglang_platform_acme"
_PLATFORM, _INIT = f"{_SOURCES}/platform.py", f"{_SOURCES}/__init__.py"
_INFO = ("info", "acme")
_CHECK = ("check", ".")
_RMS_NORM = ("conformance", "--platform", "acme", "--check", "kernels.op_*[*rms_norm*]")
_GRAPHS = (
    "conformance",
    "--platform",
    "acme",
    "--level",
    "graphs",
    "--host",
    "none",
    "-k",
    "input_is_copied",
)


class Mistake(NamedTuple):
    """kind: its row in `docs/troubleshooting.md`. command: the first that can know. place: a file and a text that one
    line of it has, which the message names. says: words of the cause, then of the fix."""

    kind: str
    name: str
    edits: tuple[Edit, ...]
    command: tuple[str, ...]
    first_line: str
    place: tuple[str, str]
    says: tuple[str, ...]


def _method(text: str) -> Edit:
    return Edit(_PLATFORM, "    def init_backend(self):\n", f"{text}\n    def init_backend(self):\n")


def _part(file: str, imported: str, base: str, method: str) -> Edit:
    source = (
        f"from {imported} import {base}\n\n\nclass AcmePart({base}):\n    def {method}\n        return None\n"
    )
    return Edit(f"{_SOURCES}/{file}.py", "", source)


_POOL = _method(
    "    def get_kv_pool_cls(self, *, kind):\n        from .pools import AcmePart\n\n"
    '        return AcmePart if kind == "mha" else None\n'
)
_BACKEND = _method(
    "    def get_attention_backends(self):\n        from .attention import AcmePart\n\n"
    '        return {"acme": AcmePart}\n'
)
_HOOKS = '[project.entry-points."sglang.srt.plugins"]\nacme = "sglang_platform_acme.hooks:register"\n\n'
_CONTRACT = '[project.entry-points."sglang_platform.contract"]\n'
_GRAPH_PARTS = """    def get_attention_backends(self):
        from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend

        return {"acme": ExampleOOTAttentionBackend}

    def get_default_attention_backend(self):
        return "acme"

    def get_kv_pool_cls(self, *, kind):
        from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool

        return ExampleOOTMHAPool if kind == "mha" else None

    def get_graph_runner_cls(self):
        from .graphs import AcmeGraphRunner

        return AcmeGraphRunner
"""
_NO_LOAD = "    def load_batch(self, forward_batch, pp_proxy_tensors=None):\n        return None\n"
_RECORD = "    def record(self, run):\n        return Recorded(), run()\n"


def _platform_method(name: str, meant: str) -> Mistake:
    return Mistake(
        "a method of the platform is misspelt", name,
        (_method(f"    def {name}(self):\n        return None\n"),), _INFO,
        "breaks the platform contract", (_PLATFORM, f"def {name}"),
        (f"{name} is not a name of the contract", f"did you mean {meant}?", "use the contract's names"),
    )  # fmt: skip


def _pool_method(name: str, meant: str) -> Mistake:
    return Mistake(
        "a method of the KV pool is misspelt", name,
        (_POOL, _part("pools", "sglang_platform.core", "MHATokenToKVPool", f"{name}(self, *args):")), _INFO,
        "overrides what KVCache does not have", (f"{_SOURCES}/pools.py", f"def {name}"),
        (f"AcmePart.{name}: nothing calls it", f"did you mean {meant}?", "use the name of the base class"),
    )  # fmt: skip


def _attention_method(name: str, meant: str, command: tuple[str, ...] = _INFO) -> Mistake:
    base = ("sglang_platform.core.portable.torch.attention", "TorchAttentionBackend")
    return Mistake(
        "a method of the attention backend is misspelt", name,
        (_BACKEND, _part("attention", *base, f"{name}(self, *args):")), command,
        "overrides what AttentionBackend does not have", (f"{_SOURCES}/attention.py", f"def {name}"),
        (f"AcmePart.{name}: nothing calls it", f"did you mean {meant}?", "use the name of the base class"),
    )  # fmt: skip


def _factory(name: str, signature: str, answer: str, says: str) -> Mistake:
    return Mistake(
        "a factory answers no class", f"{name}: {answer}",
        (_method(f"    def {name}({signature}):\n        return {answer}\n"),), _INFO,
        f"AcmePlatform.{name}", (_PLATFORM, f"def {name}"), (says, "return the class itself, or None"),
    )  # fmt: skip


def _key(given: str, command: tuple[str, ...] = _INFO) -> Mistake:
    return Mistake(
        "a fused op has another dispatch key", f"{given} {command[0]}",
        (Edit(_PLATFORM, "register_ops(self.get_dispatch_key_name())", f"register_ops({given!r})"),), command,
        "is ever called", (f"{_SOURCES}/ops.py", "FusedOp.register_oot_forward"),
        ("get_dispatch_key_name() answers 'native'", "self.get_dispatch_key_name() to"),
    )  # fmt: skip


def _hook(target: str, meant: str) -> Mistake:
    source = (
        "from sglang_platform.core import HookRegistry, HookType\n\n\ndef around(original, *args, **kwargs):\n"
        "    return original(*args, **kwargs)\n\n\ndef register():\n"
        f"    HookRegistry.register({target!r}, around, HookType.AROUND)\n"
    )
    return Mistake(
        "a hook names no function of SGLang", target,
        (Edit("pyproject.toml", _CONTRACT, _HOOKS + _CONTRACT), Edit(f"{_SOURCES}/hooks.py", "", source)), _INFO,
        "1 required hook target does not exist", (f"{_SOURCES}/hooks.py", "def around"),
        (target, meant, "correct the name"),
    )  # fmt: skip


def _graph(name: str, body: str) -> Mistake:
    source = (
        "from sglang_platform.example_oot.graph_runner import ExampleOOTGraphRunner\n\n\nclass Recorded:\n"
        "    def replay(self):\n        return None\n\n\nclass AcmeGraphRunner(ExampleOOTGraphRunner):\n"
        "    def capture(self):\n        super(ExampleOOTGraphRunner, self).capture()\n\n" + body
    )
    declared = (
        'capabilities = PlatformCapabilities(graph_capture=True)\n    supported_kv_kinds = ("mha",)\n    '
    )
    return Mistake(
        "a graph ignores new input", name,
        (
            _method(_GRAPH_PARTS), Edit(f"{_SOURCES}/graphs.py", "", source),
            Edit(_PLATFORM, "supported_page_sizes", f"{declared}supported_page_sizes"),
            Edit(_PLATFORM, "import SRTPlatform", "import PlatformCapabilities, SRTPlatform"),
        ), _GRAPHS,
        "failed graphs.every_input_is_copied", (f"{_SOURCES}/graphs.py", "class AcmeGraphRunner"),
        ("of the replay differs from the eager model", "run the captured graph in every replay"),
    )  # fmt: skip


MISTAKES = (
    _platform_method("get_default_atention_backend", "get_default_attention_backend"),
    _platform_method("get_kv_pool_class", "get_kv_pool_cls"),
    _platform_method("init_backnd", "init_backend"),
    _pool_method("_create_bufers", "_create_buffers"),
    _pool_method("set_kv_bufer", "set_kv_buffer"),
    _pool_method("_store_kv_layr", "_store_kv_layer"),
    _attention_method("forward_extnd", "forward_extend"),
    _attention_method("forward_decod", "forward_decode"),
    _attention_method("init_forward_metdata", "init_forward_metadata", _CHECK),
    Mistake(
        "`activate()` answers the class", "activate", (
            Edit(
                _INIT, '    return "sglang_platform_acme.platform:AcmePlatform"',
                "    from .platform import AcmePlatform\n\n    return AcmePlatform",
            ),
        ), _INFO, "answered with the type", (_INIT, "@platform_plugin"),
        ("activate() must return", 'return "sglang_platform_acme.platform:AcmePlatform", the text'),
    ),
    Mistake(
        "`activate()` answers the class", "entry point", (
            Edit("pyproject.toml", "sglang_platform_acme:activate", "sglang_platform_acme.platform:AcmePlatform"),
        ), _INFO, "names the class AcmePlatform, not a function", (_PLATFORM, "class AcmePlatform"),
        ("SGLang calls what sglang.srt.platforms names", "write a function that returns"),
    ),
    _factory("get_kv_pool_cls", "self, *, kind", '"acme.pools:AcmePool"', "answers the text 'acme.pools:AcmePool'"),
    _factory("get_paged_allocator_cls", "self", "object()", "no class"),
    _factory("get_paged_allocator_cls", "self", "dict", "answers dict, which is no PagedTokenToKVPoolAllocator"),
    Mistake(
        "a factory answers no class", "attention backends", (
            _method(
                "    def get_attention_backends(self):\n        from sglang_platform.core import AttentionBackend\n\n"
                "        return AttentionBackend\n"
            ),
        ), _INFO, "SGLang cannot start on", (_PLATFORM, "def get_attention_backends"),
        ("answers the class AttentionBackend", "return {name: class}"),
    ),
    Mistake(
        "`@platform_plugin` is missing", "info", (Edit(_INIT, "@platform_plugin\ndef", "def"),), _INFO,
        "is not decorated with @platform_plugin", (_INIT, "def activate"),
        ("SGLang would get", "`@platform_plugin` above `def activate()`"),
    ),
    Mistake(
        "`@platform_plugin` is missing", "check", (Edit(_INIT, "@platform_plugin\ndef", "def"),), _CHECK,
        "is not decorated with @platform_plugin", (_INIT, "def activate"),
        ("SGLang would get", "`@platform_plugin` above `def activate()`"),
    ),
    Mistake(
        "the contract's entry point is missing", "group", (Edit("pyproject.toml", f'{_CONTRACT}acme = "v1"\n', ""),),
        _CHECK, "does not state its version", ("pyproject.toml", "sglang.srt.platforms"),
        ("nothing would tell that the two do not fit", 'with acme = "v1"'),
    ),
    Mistake(
        "the contract's entry point is missing", "name", (Edit("pyproject.toml", 'acme = "v1"', 'acme_npu = "v1"'),),
        _CHECK, "does not state its version", ("pyproject.toml", "sglang.srt.platforms"),
        ("nothing would tell that the two do not fit", 'with acme = "v1"'),
    ),
    _key("acme"),
    _key("OOT"),
    _key("acme", _RMS_NORM),
    _hook("sglang.srt.managers.scheduler.Scheduler.run_bach", "Scheduler.run_batch"),
    _hook("sglang.srt.utils.common:get_devise", "get_device"),
    _graph("nothing is recorded", _RECORD),
    _graph("inputs stay those of the capture", _NO_LOAD),
)  # fmt: skip
