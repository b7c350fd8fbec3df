"""Reading the hooks that a plugin registers from its source."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.hooks.types import HookType
from sglang_platform.devtools.changes import read_hooks
from sglang_platform.devtools.source.opening import open_plugin, package_of


@pytest.fixture
def read(tmp_path):
    """`read(source, **other_modules)`: what the plugin `vendor` registers."""

    def reader(source: str, **others: str):
        package = tmp_path / "vendor"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text("raise SystemExit('imported')\n")
        for name, text in {"hooks": source, **others}.items():
            (package / f"{name}.py").write_text(textwrap.dedent(text) + "\nraise SystemExit('imported')\n")
        return read_hooks(open_plugin(str(package)), "vendor")

    return reader


IMPORT = "from sglang_platform.core import HookRegistry, HookType, plugin_hook\n"

FOUND = {
    "a decorator": ("@plugin_hook('m:f')\ndef h(r): pass", HookType.AFTER, "h"),
    "a decorator with a type": ("@plugin_hook('m:f', HookType.BEFORE)\ndef h(): pass", HookType.BEFORE, "h"),
    "a decorator with keywords": (
        "@plugin_hook(target='m:f', type=HookType.AROUND)\ndef h(o): pass",
        HookType.AROUND,
        "h",
    ),
    "a call": ("def h(r): pass\nHookRegistry.register('m:f', h)", HookType.AFTER, "h"),
    "a call with keywords": (
        "def h(): pass\nHookRegistry.register(hook=h, target='m:f', hook_type=HookType.REPLACE)",
        HookType.REPLACE,
        "h",
    ),
    "in a function": (
        "def load():\n    def h(r): pass\n    if True:\n        HookRegistry.register('m:f', h)",
        HookType.AFTER,
        "h",
    ),
    "the decorator as a call": ("def h(r): pass\nplugin_hook('m:f')(h)", HookType.AFTER, "h"),
    "a lambda": ("HookRegistry.register('m:f', lambda r: r)", HookType.AFTER, "lambda r: r"),
    "a class": ("@plugin_hook('m:f', HookType.REPLACE)\nclass H: pass", HookType.REPLACE, "H"),
    "a constant": ("T = 'm:f'\ndef h(r): pass\nHookRegistry.register(T, h)", HookType.AFTER, "h"),
    "an f-string": ("M = 'm'\ndef h(r): pass\nHookRegistry.register(f'{M}:f', h)", HookType.AFTER, "h"),
    "a sum": ("M = 'm'\ndef h(r): pass\nHookRegistry.register(M + ':f', h)", HookType.AFTER, "h"),
    "of SGLang": (
        "from sglang.srt.plugins.hook_registry import HookRegistry as R, HookType as T\n"
        "def h(): pass\nR.register('m:f', h, T.BEFORE)",
        HookType.BEFORE,
        "h",
    ),
    "of an imported module": (
        "from sglang_platform.core.hooks import registry\n"
        "@registry.plugin_hook('m:f', registry.HookType.BEFORE)\ndef h(): pass",
        HookType.BEFORE,
        "h",
    ),
    "a generator of literals": (
        "def h(r): pass\nfor t in ('m:' + name for name in ('f',)):\n    HookRegistry.register(t, h)",
        HookType.AFTER,
        "h",
    ),
    "a class attribute": (
        "class Hooks:\n    TARGET = 'm:f'\n    def load(self): HookRegistry.register(self.TARGET, lambda r: r)",
        HookType.AFTER,
        "lambda r: r",
    ),
    "a method": (
        "class Hooks:\n    def h(r): pass\nHookRegistry.register('m:f', Hooks.h)",
        HookType.AFTER,
        "Hooks.h",
    ),
}


@pytest.mark.parametrize(("source", "type_", "name"), FOUND.values(), ids=FOUND)
def test_a_registration_is_found_with_its_type_and_its_function(read, source, type_, name) -> None:
    found = read(IMPORT + source)
    assert not found.unread
    (wanted,) = found.hooks
    assert (wanted.target, wanted.hook.type, wanted.hook.name) == ("m:f", type_, name)
    assert wanted.hook.node is not None
    assert (wanted.plugin, wanted.required) == ("vendor", True)


def test_the_place_and_the_requirement_are_told(read) -> None:
    found = read(IMPORT + "\n@plugin_hook('m:f', required=False)\ndef h(r): pass")
    assert found.hooks[0].where.endswith("hooks.py:3")
    assert not found.hooks[0].required


def test_a_hook_and_a_target_from_another_file_of_the_plugin_are_found(read) -> None:
    found = read(
        IMPORT + "from .names import TARGET\nfrom vendor.impl import h\nHookRegistry.register(TARGET, h)",
        names="TARGET = 'm:f'",
        impl="def h(result, x): pass",
    )
    (wanted,) = found.hooks
    assert wanted.target == "m:f"
    assert [one.arg for one in wanted.hook.node.args.args] == ["result", "x"]


def test_loops_over_literals_are_followed(read) -> None:
    found = read(
        IMPORT
        + textwrap.dedent("""
        TABLE: dict[str, tuple[str, ...]] = {"a": ("m:f", "m:g"), "b": ("m:h",)}
        def load():
            for name, targets in TABLE.items():
                for target in targets:
                    HookRegistry.register(target, make(name), HookType.BEFORE)
        for cls in ("A", "B"):
            @plugin_hook(f"m:{cls}.run")
            def h(r): pass
        """)
    )
    assert [one.target for one in found.hooks] == ["m:f", "m:g", "m:h", "m:A.run", "m:B.run"]
    assert found.hooks[0].hook.node is None
    assert not found.unread


UNREAD = {
    "a parameter": "def reg(target, h):\n    HookRegistry.register(target, h)",
    "a result": "HookRegistry.register(make(), h)",
    "a loop over a result": "for t in make():\n    HookRegistry.register(t, h)",
    "an unknown type": "HookRegistry.register('m:f', h, pick())",
    "no target": "HookRegistry.register()",
}


@pytest.mark.parametrize("source", UNREAD.values(), ids=UNREAD)
def test_a_registration_that_cannot_be_read_is_listed_by_its_place(read, source) -> None:
    found = read(IMPORT + source)
    assert not found.hooks
    assert len(found.unread) == 1
    assert "hooks.py:" in found.unread[0]


def test_a_parameter_hides_a_constant_of_its_name(read) -> None:
    found = read(IMPORT + "target = 'm:f'\ndef reg(target, h):\n    HookRegistry.register(target, h)")
    assert not found.hooks
    assert len(found.unread) == 1


def test_a_file_that_does_not_parse_is_listed(read) -> None:
    found = read(IMPORT + "@plugin_hook('m:f')\ndef h(:")
    assert found.unread[0].endswith("(it cannot be parsed)")


def test_other_registers_and_the_framework_itself_are_left_alone(read) -> None:
    found = read(
        "import atexit\natexit.register(print)\nregistry.register('m:f', 1)\n# HookRegistry",
        framework="class HookRegistry:\n    pass\ndef plugin_hook(t):\n    HookRegistry.register(t, 1)",
    )
    assert found == ((), ())


def test_tests_of_the_plugin_are_left_alone(tmp_path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "tests").mkdir()
    for folder, target in (("pkg", "m:f"), ("tests", "m:g")):
        (tmp_path / folder / "x.py").write_text(f"{IMPORT}@plugin_hook('{target}')\ndef h(r): pass\n")
    assert [one.target for one in read_hooks(open_plugin(str(tmp_path))).hooks] == ["m:f"]


def test_a_plugin_is_a_folder_a_checkout_a_file_a_package_or_a_module(tmp_path, monkeypatch) -> None:
    text = f"{IMPORT}@plugin_hook('m:f')\ndef h(r): pass\nraise SystemExit('imported')\n"
    (tmp_path / "src" / "static_vendor").mkdir(parents=True)
    (tmp_path / "src" / "static_vendor" / "__init__.py").write_text(text)
    (tmp_path / "src" / "static_single.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    places = [tmp_path / "src" / "static_vendor", tmp_path / "src" / "static_single.py"]
    for where in (*map(str, places), "static_vendor", "static_single"):
        assert [one.target for one in read_hooks(open_plugin(where)).hooks] == ["m:f"], where
    assert len(read_hooks(open_plugin(str(tmp_path))).hooks) == 2


@pytest.mark.parametrize("where", ["no.such.module", "no/such/folder", "sys"])
def test_a_plugin_without_source_is_refused(where) -> None:
    with pytest.raises(ConfigurationError, match="plugin"):
        open_plugin(where)


def test_the_package_of_an_entry_point_is_the_topmost_that_is_no_namespace() -> None:
    assert package_of("sglang_platform.core.sglang.start.general_plugin") == "sglang_platform.core"
    assert package_of("json.decoder") == "json"
    assert package_of("json") == "json"


def test_the_hooks_of_core_itself_are_readable_but_for_those_whose_target_depends_on_the_host() -> None:
    found = read_hooks(open_plugin("sglang_platform.core"))
    adapter = str(Path("core", "sglang"))
    assert all(adapter in place for place in found.unread), found.unread
    targets = {one.target for one in found.hooks}
    assert "multiprocessing.process:BaseProcess.__init__" in targets
    assert "sglang.srt.model_executor.model_runner:ModelRunner.load_model" in targets
