"""Everything a plugin can do wrong is a PluginFailed that says what, who, why and what to do, with its cause."""

from __future__ import annotations

import pytest

from sglang_platform.core.discovery import current
from sglang_platform.core.errors import PluginFailed, ReentrantResolution


def _failure(*words: str) -> PluginFailed:
    with pytest.raises(PluginFailed) as caught:
        current.decide()
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    assert "dev (dev-dist 1.0)" in message
    assert caught.value.fix
    assert isinstance(caught.value, RuntimeError)
    return caught.value


@pytest.mark.parametrize(
    ("activate", "words", "cause"),
    [
        (
            "raise RuntimeError('driver gone')",
            ["failed in activate()", "RuntimeError: driver gone"],
            RuntimeError,
        ),
        ("raise SystemExit(3)", ["SystemExit: 3"], SystemExit),
        ("import dev_helper_gone", ["install what provides 'dev_helper_gone'"], ModuleNotFoundError),
        ("from os import nothing_like_it", ["cannot import name 'nothing_like_it'"], ImportError),
        ("class Panic(BaseException): pass\nraise Panic('rust')", ["Panic: rust"], BaseException),
    ],
)
def test_a_raising_activate(site, activate, words, cause) -> None:
    site.platform("dev", activate)
    error = _failure("dev_plugin.py:", *words)
    assert isinstance(error.__cause__, cause)


def test_a_keyboard_interrupt_is_no_failure_of_the_plugin(site) -> None:
    site.platform("dev", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        current.decide()
    assert not current.resolved()


@pytest.mark.parametrize(
    "answer", ["3", "True", "b'a:B'", "['a:B']", "''", "'Platform'", "'a:'", "'a b:C'", "'a:B:C'"]
)
def test_an_answer_that_is_no_location(site, answer) -> None:
    site.platform("dev", f"return {answer}")
    _failure(answer, "must return", "pkg.mod:Class", "dev_plugin.py:3: return the text")


def test_the_class_itself_is_no_answer(site) -> None:
    site.platform("dev", "import dev_plugin_cls\nreturn dev_plugin_cls.Platform")
    _failure("answered with the type <class 'dev_plugin_cls.Platform'>")


@pytest.mark.parametrize(
    ("entry_point", "words"),
    [
        ("gone:activate", ["could not be imported", "No module named 'gone'", "correct the entry point"]),
        ("dev_plugin.inner:activate", ["No module named 'dev_plugin.inner'"]),
        ("dev_plugin:activat", ["module 'dev_plugin' has no attribute 'activat'"]),
        ("dev_plugin", ["names the module <module 'dev_plugin'"]),
        ("dev_plugin:VALUE", ["names the int 5, not a function"]),
        ("dev plugin!", ["correct the entry point dev = dev plugin! of dev-dist"]),
    ],
)
def test_an_entry_point_that_leads_nowhere(site, entry_point, words) -> None:
    site.module("dev_plugin", "VALUE = 5\ndef activate(): ...\n")
    site.distribution("dev-dist", {"sglang.srt.platforms": {"dev": entry_point}})
    _failure(*words)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "raise OSError('libmydev.so: no such file')",
            ["OSError: libmydev.so: no such file", "dev_plugin.py:1"],
        ),
        ("raise SystemExit('not here')", ["SystemExit: not here"]),
        ("def activate(:", ["SyntaxError", "dev_plugin.py:1"]),
        ("import os\nos.nothing_like_it", ["AttributeError", "nothing_like_it", "dev_plugin.py:2"]),
    ],
)
def test_a_module_that_does_not_import(site, source, words) -> None:
    site.module("dev_plugin", source)
    site.distribution("dev-dist", {"sglang.srt.platforms": {"dev": "dev_plugin:activate"}})
    assert _failure("could not be imported", *words).__cause__ is not None


def test_the_first_cause_behind_a_masking_error_is_shown(site) -> None:
    site.module(
        "dev_inner",
        "try:\n    open('/does/not/exist')\nexcept OSError:\n    raise ImportError('no firmware')\n",
    )
    site.module(
        "dev_middle", "try:\n    import dev_inner\nexcept ImportError:\n    pass\nfrom dev_gone import x\n"
    )
    site.platform(
        "dev", "try:\n    import dev_inner\nexcept Exception:\n    raise ImportError('cannot load dev')"
    )
    _failure(
        "ImportError: cannot load dev", "first cause: FileNotFoundError", "/does/not/exist", "dev_inner.py:2"
    )


@pytest.mark.parametrize(
    "location", ["dev_plugin_cls:Platform", "dev_plugin_cls.Platform", "dev_plugin_cls:Outer.Inner"]
)
def test_both_spellings_of_a_class_are_accepted(site, location) -> None:
    site.platform("dev", f"return {location!r}")
    site.module(
        "dev_plugin_cls",
        """
        from sglang_platform.core.contract.srt import SRTPlatform
        class Platform(SRTPlatform): ...
        class Outer:
            Inner = Platform
        """,
    )
    assert current.decide().platform_class.__name__ == "Platform"


def test_a_dotted_class_in_a_nested_package(site) -> None:
    site.platform("dev", "return 'dev_deep.inner.platform.Platform'")
    site.module("dev_deep.inner.platform", "from dev_plugin_cls import Platform")
    assert current.decide().platform_class.device_name == "dev"


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("dev_plugin_gone:Platform", ["No module named 'dev_plugin_gone'"]),
        ("dev_plugin_cls:Platfrom", ["has no attribute 'Platfrom'"]),
        ("dev_plugin_cls.Platfrom", ["no attribute or submodule 'Platfrom'"]),
        ("dev_driver_older:Platform", ["has no attribute 'dumbs'", "correct dev_driver_older:Platform"]),
        ("dev_plugin_cls.inner.Platform", ["no attribute or submodule 'inner'"]),
        ("dev_broken:Platform", ["ZeroDivisionError", "dev_broken.py:1"]),
        ("dev_broken.Platform", ["ZeroDivisionError", "dev_broken.py:1"]),
        ("dev_package.broken.Platform", ["ModuleNotFoundError", "dev_driver_gone"]),
    ],
)
def test_a_class_that_cannot_be_loaded(site, location, words) -> None:
    site.platform("dev", f"return {location!r}")
    site.module("dev_broken", "1 / 0")
    site.module("dev_package.broken", "import dev_driver_gone")
    site.module("dev_driver_older", "import json; json.dumbs")
    assert _failure(f"the platform class {location}", "could not be loaded", *words).__cause__ is not None


@pytest.mark.parametrize("name", ["function", "INSTANCE", "Unrelated", "Device"])
def test_something_that_is_no_platform_class(site, name) -> None:
    site.platform("dev", f"return 'dev_other:{name}'")
    site.module(
        "dev_other",
        """
        from sglang_platform.core.contract.device import DeviceMixin
        from sglang_platform.core.contract.srt import SRTPlatform
        def function(): ...
        class Unrelated: ...
        class Device(DeviceMixin): ...
        INSTANCE = SRTPlatform()
        """,
    )
    wanted = "sglang_platform.core.contract.srt.SRTPlatform"
    error = _failure(
        f"dev_other:{name}",
        "is not a platform class",
        f"not a subclass of {wanted}",
        f"derive the class from {wanted}",
    )
    assert isinstance(error, TypeError)  # as in SGLang


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "def __init__(self): raise OSError('no context')",
            ["could not be instantiated", "OSError: no context"],
        ),
        ("def __init__(self, device): ...", ["could not be instantiated", "takes no arguments"]),
        ("__slots__ = ('_x',)", ["cannot be the platform's class", "no __slots__"]),
        (
            "def __init__(self): self.device_type = 'dev2'",
            ["cannot be the platform's class", "device_type is 'dev2'", "torch reads lower-case"],
        ),
        ("device_type = property(lambda self: 'Dev')", ["device_type is 'Dev'", "torch reads lower-case"]),
        ("device_type = property(lambda self: 'dev:1')", ["device_type is 'dev:1'", "carries no index"]),
        ("device_type = property(lambda self: None)", ["device_type is None", "not a non-empty str"]),
        (
            "device_type = property(lambda self: open('/no/driver'))",
            ["could not be instantiated", "/no/driver"],
        ),
    ],
)
def test_a_class_that_cannot_become_the_platform(site, body, words) -> None:
    site.platform("dev")
    site.module(
        "dev_plugin_cls",
        f"from sglang_platform.core.contract.srt import SRTPlatform\nclass Platform(SRTPlatform):\n    {body}\n",
    )
    with pytest.raises(PluginFailed) as caught:
        _ = current.current_platform.device_name
    assert [word for word in (*words, "dev (dev-dist 1.0)") if word not in str(caught.value)] == []
    assert not current.resolved()


TOUCH = "from sglang_platform.core.discovery.current import current_platform\ncurrent_platform.device_name\n"


@pytest.mark.parametrize("place", ["activate", "module", "class module", "__init__"])
def test_a_plugin_that_touches_the_platform_while_it_is_resolved(site, place) -> None:
    site.platform("dev", TOUCH + "return 'dev_plugin_cls:Platform'" if place == "activate" else "")
    if place == "module":
        site.module("dev_plugin", TOUCH + "def activate(): ...\n")
    source = "from sglang_platform.core.contract.srt import SRTPlatform\nclass Platform(SRTPlatform): "
    if place == "class module":
        site.module("dev_plugin_cls", TOUCH + source + "...\n")
    if place == "__init__":
        body = "\n    def __init__(self):\n        " + TOUCH.replace("\n", "\n        ")
        site.module("dev_plugin_cls", source + body)
    with pytest.raises(ReentrantResolution) as caught:
        _ = current.current_platform.device_type
    message = str(caught.value)
    where = "dev_plugin.py" if place in ("activate", "module") else "dev_plugin_cls.py"
    assert "touched while it is being resolved" in message
    assert "dev (dev-dist 1.0)" in message
    assert f"{where}:" in message
    assert "test_plugin_failures.py" in message  # where the resolution began
    assert "not in activate()" in message
    with pytest.raises(ReentrantResolution) as again:
        current.decide() if place != "__init__" else current.current_platform.device_type
    assert str(again.value) == message
