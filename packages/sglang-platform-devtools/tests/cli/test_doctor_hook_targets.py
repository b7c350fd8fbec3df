"""What `doctor` reads in plugins' sources about the targets of their hooks."""

from __future__ import annotations

import pytest

ENGINE = "class Engine:\n    def generate(self): ...\n\ndef start(): ...\n"
GENERAL = "sglang.srt.plugins"


def install(command, source: str) -> None:
    command.install("mine", {GENERAL: {"mine": "mine_hooks:register"}}, mine_hooks=source, some_engine=ENGINE)


def found(command, status: int = 0) -> list[dict]:
    findings = command.json("doctor", "--source-only", status=status)["findings"]
    return [finding for finding in findings if finding["id"].startswith("hook-")]


@pytest.mark.parametrize(
    "registration",
    [
        "@plugin_hook('some_engine:Engine.generat')\ndef hook(result): ...",
        "@plugin_hook(target='some_engine.Engine.generat')\ndef hook(result): ...",
        "@core.plugin_hook(ENGINE + '.generat')\ndef hook(result): ...",
        "@decorate(f'{ENGINE}.generat', required=True)\ndef hook(result): ...",
        "def register():\n    HookRegistry.register('some_engine:Engine.generat', print)",
        "def register():\n    Hooks.register('some_engine:Engine.generat', print)",
    ],
)
def test_a_required_hook_on_nothing_is_a_problem(command, registration) -> None:
    imports = (
        "raise SystemExit('imported')\n"
        "import sglang_platform.core as core\n"
        "from sglang_platform.core import HookRegistry, plugin_hook, plugin_hook as decorate\n"
        "from sglang.srt.plugins.hook_registry import HookRegistry as Hooks\n"
        "ENGINE = 'some_engine:Engine'\n"
        "def register(): ...\n"
    )
    install(command, imports + registration)
    (finding,) = found(command, 1)
    assert (finding["id"], finding["severity"]) == ("hook-target-missing", "problem")
    assert "generat does not exist" in finding["what"]
    line = len((imports + registration).splitlines()) - (0 if "def register():\n " in registration else 1)
    assert finding["where"].endswith(f"mine_hooks.py:{line}")
    assert finding["fix"] == "did you mean some_engine:Engine.generate?"
    assert finding["plugin"]["name"] == "mine"


def test_an_optional_hook_on_nothing_is_a_note(command) -> None:
    install(
        command,
        "from sglang_platform.core import HookRegistry\n"
        "def register():\n    HookRegistry.register('some_engine:gone', print, required=False)\n",
    )
    (finding,) = found(command)
    assert (finding["id"], finding["severity"]) == ("hook-target-missing", "note")


def test_an_optional_hook_beside_one_on_the_similar_name_is_a_note(command) -> None:
    install(
        command,
        "from sglang_platform.core import HookRegistry\n"
        "def register():\n"
        "    HookRegistry.register('some_engine:Engine.generate', print, required=False)\n"
        "    HookRegistry.register('some_engine.Engine.generates', print, required=False)\n",
    )
    (finding,) = found(command)
    assert (finding["id"], finding["severity"]) == ("hook-target-missing", "note")


def test_the_source_of_a_platform_under_development_is_read(command) -> None:
    source = (
        "from sglang_platform.core import HookRegistry, SRTPlatform\n"
        "class Mine(SRTPlatform):\n"
        "    def init_backend(self):\n        HookRegistry.register('some_engine:gone', print)\n"
    )
    (command.folder / "mine.py").write_text(source)
    (command.folder / "some_engine.py").write_text(ENGINE)
    told = command.json("doctor", "--source-only", status=1, SGLANG_PLATFORM_PLUGIN="mine=mine:Mine")
    assert "hook-target-missing" in {finding["id"] for finding in told["findings"]}


@pytest.mark.parametrize(
    "target", ["some_engine:starts", "some_engine:Engine.generat", "some_engine.Engine.generated"]
)
def test_an_optional_hook_on_a_misspelt_name_is_a_warning(command, target: str) -> None:
    install(
        command,
        "from sglang_platform.core import HookRegistry\n"
        f"def register():\n    HookRegistry.register('{target}', print, required=False)\n",
    )
    (finding,) = found(command)
    assert (finding["id"], finding["severity"]) == ("hook-target-missing", "warning")
    assert finding["fix"].startswith("did you mean some_engine:")


def test_targets_that_exist_and_calls_that_are_no_hooks_give_nothing(command) -> None:
    install(
        command,
        "from sglang_platform.core import plugin_hook\nfrom elsewhere import Registry\n"
        "@plugin_hook('some_engine:start')\ndef one(result): ...\n"
        "@plugin_hook('some_engine.Engine.generate')\ndef two(result): ...\n"
        "Registry.register('HookRegistry', 1)\ndef register(): ...\n",
    )
    assert found(command) == []


@pytest.mark.parametrize(
    ("target", "why"),
    [("some_engin:start", "there is no module 'some_engin'"), ("not a target", "not a target")],
)
def test_targets_that_lead_to_no_module(command, target, why) -> None:
    install(
        command,
        f"from sglang_platform.core import plugin_hook\n@plugin_hook({target!r})\ndef register(result): ...\n",
    )
    (finding,) = found(command, 1)
    assert finding["id"] == "hook-target-missing"
    assert why in (finding["why"] or finding["what"])
    assert finding["where"].endswith("mine_hooks.py:2")


def test_what_cannot_be_checked_is_counted(command) -> None:
    install(
        command,
        "from sglang_platform.core import HookRegistry\n"
        "def register():\n"
        "    for target in ('some_engine:' + name for name in names_of_today()):\n"
        "        HookRegistry.register(target, print)\n"
        "    HookRegistry.register('sglang.srt.managers.scheduler:Scheduler.run', print)\n",
    )
    computed, hosts = found(command)
    assert computed["id"] == hosts["id"] == "hook-targets-unread"
    assert "computed" in computed["why"]
    assert "mine_hooks.py:4" in computed["why"]
    assert "SGLang is not installed" in hosts["why"]


def test_every_module_of_the_plugin_s_package_is_read_except_its_tests(command) -> None:
    command.install("mine", {GENERAL: {"mine": "mine_pkg.entry:register"}}, some_engine=ENGINE)
    hook = (
        "from sglang_platform.core import plugin_hook\n@plugin_hook('some_engine:gone_{}')\ndef h(r): ...\n"
    )
    for name in ("entry", "deep/hooks", "tests/hooks"):
        path = command.folder / "mine_pkg" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(hook.format(name.replace("/", "_")) + "def register(): ...\n")
    whats = [finding["what"].split()[3] for finding in found(command, 1)]
    assert whats == ["some_engine:gone_deep_hooks", "some_engine:gone_entry"]


HOOK = """
from sglang_platform.core import plugin_hook
@plugin_hook('some_engine:{target}')
def hook(result): ...
def register(): ...
"""


def test_after_a_sound_plugin_nothing_was_left_unread(command) -> None:
    install(command, HOOK.format(target="start"))
    assert command("doctor").stdout.splitlines()[-1] == "no problem found"


def test_the_packages_for_gpus_are_read_as_those_of_others(command) -> None:
    install(command, HOOK.format(target="gone"))
    assert len(found(command, 1)) == 1
    metadata = command.folder / "mine_dist-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("mine-dist", "sglang-platform-cuda"))
    assert len(found(command, 1)) == 1
