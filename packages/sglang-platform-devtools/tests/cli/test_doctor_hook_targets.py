"""What `doctor` reads in plugins' sources about the targets of their hooks."""

from __future__ import annotations

import pytest

ENGINE = """
raise SystemExit('imported')
class Engine:
    def generate(self): ...
def start(): ...
Engine().generate(start)
"""
ARGUMENTS = '''
class ServerArgs:
    def __post_init__(self):
        """Empty: `resolve_once` derives."""
    def resolve_once(self): ...
'''
GENERAL = "sglang.srt.plugins"


@pytest.fixture
def install(command):
    """Installs a plugin `mine` beside an SGLang that cannot be imported."""
    folder = command.folder / "sglang" / "srt"
    folder.mkdir(parents=True)
    for package in (folder.parent, folder):
        (package / "__init__.py").touch()
    (folder / "engine.py").write_text(ENGINE)
    (folder / "server_args.py").write_text(ARGUMENTS)

    def write(source: str) -> None:
        command.install("mine", {GENERAL: {"mine": "mine_hooks:register"}}, mine_hooks=source)

    return write


def found(command, status: int = 0) -> list[dict]:
    findings = command.json("doctor", "--source-only", status=status)["findings"]
    return [one for one in findings if one["id"].startswith(("hook-", "host-use-"))]


IMPORTS = (
    "import sglang_platform.core as core\n"
    "from sglang_platform.core import HookRegistry, plugin_hook, plugin_hook as decorate\n"
    "from sglang.srt.plugins.hook_registry import HookRegistry as Hooks\n"
    "ENGINE = 'sglang.srt.engine:Engine'\n"
)
NOTHING = "def register(): ...\n"
HOOK = f"""from sglang_platform.core import plugin_hook
{NOTHING}@plugin_hook('sglang.srt.{{}}')
def hook(result, *args):
    return result
"""


@pytest.mark.parametrize(
    "registration",
    [
        f"{NOTHING}@plugin_hook('sglang.srt.engine:Engine.generat')\ndef hook(result): ...",
        f"{NOTHING}@plugin_hook(target='sglang.srt.engine.Engine.generat')\ndef hook(result): ...",
        f"{NOTHING}@core.plugin_hook(ENGINE + '.generat')\ndef hook(result): ...",
        f"{NOTHING}@decorate(f'{{ENGINE}}.generat', required=True)\ndef hook(result): ...",
        "def register():\n    HookRegistry.register('sglang.srt.engine:Engine.generat', print)",
        "def register():\n    Hooks.register('sglang.srt.engine:Engine.generat', print)",
    ],
)
def test_a_required_hook_on_nothing_is_a_problem(command, install, registration) -> None:
    install(IMPORTS + registration)
    (finding,) = found(command, 1)
    assert (finding["id"], finding["severity"]) == ("hook-missing", "problem")
    line = len((IMPORTS + registration).splitlines()) - registration.startswith(NOTHING)
    assert finding["where"].endswith(f"mine_hooks.py:{line}")
    assert finding["fix"].startswith("did you mean sglang.srt.engine:Engine.generate")
    assert finding["plugin"]["name"] == "mine"


@pytest.mark.parametrize(
    ("targets", "severity"),
    [
        (["sglang.srt.engine:gone"], "note"),
        (["sglang.srt.engine:Engine.generate", "sglang.srt.engine.Engine.generates"], "note"),
        (["sglang.srt.engine:starts"], "warning"),
        (["sglang.srt.engine:Engine.generat"], "warning"),
    ],
)
def test_an_optional_hook_on_nothing_is_a_note_and_on_a_misspelt_name_a_warning(
    command, install, targets: list[str], severity: str
) -> None:
    call = "    HookRegistry.register(\n        '{}',\n        print,\n        required=False,\n    )\n"
    hooks = "".join(map(call.format, targets))
    install(f"from sglang_platform.core import HookRegistry\ndef register():\n{hooks}")
    (finding,) = found(command)
    assert (finding["id"], finding["severity"]) == ("hook-missing", severity)


def test_a_hook_where_arguments_were_derived_once_is_a_warning(command, install) -> None:
    install(HOOK.format("server_args.ServerArgs.__post_init__"))
    (finding,) = found(command)
    assert (finding["id"], finding["severity"]) == ("hook-bypassed", "warning")
    assert finding["fix"].startswith(
        "hook sglang.srt.server_args.ServerArgs.resolve_once with HookType.BEFORE"
    )


def test_the_source_of_a_platform_under_development_is_read(command, install) -> None:
    install(NOTHING)
    source = (
        "from sglang_platform.core import HookRegistry, SRTPlatform\n"
        "class Mine(SRTPlatform):\n"
        "    def init_backend(self):\n        HookRegistry.register('sglang.srt.engine:gone', print)\n"
    )
    (command.folder / "mine.py").write_text(source)
    told = command.json("doctor", "--source-only", status=1, SGLANG_PLATFORM_PLUGIN="mine=mine:Mine")
    assert "hook-missing" in {finding["id"] for finding in told["findings"]}


def test_targets_that_exist_and_calls_that_are_no_hooks_give_nothing(command, install) -> None:
    install(
        "from sglang_platform.core import plugin_hook\nfrom elsewhere import Registry\n"
        "@plugin_hook('sglang.srt.engine:start')\ndef one(result): return result\n"
        "@plugin_hook('sglang.srt.engine.Engine.generate')\ndef two(result, self): return result\n"
        "Registry.register('HookRegistry', 1)\ndef register(): ...\n",
    )
    assert found(command) == []


def test_what_cannot_be_checked_is_counted(command, install) -> None:
    install(
        "from sglang_platform.core import HookRegistry\n"
        "def register():\n"
        "    for target in ('sglang.srt.engine:' + name for name in names_of_today()):\n"
        "        HookRegistry.register(target, print)\n"
    )
    (computed,) = found(command)
    assert computed["id"] == "host-use-unclear"
    assert "1 of the lines of mine that depend on SGLang were not looked at" in computed["what"]
    assert "mine_hooks.py:4: the target of a hook or patch is not in the source" in computed["why"]


def test_without_sglang_its_lines_are_not_looked_at(command) -> None:
    command.install("mine", {GENERAL: {"mine": "mine_hooks:register"}}, mine_hooks=HOOK.format("engine:gone"))
    (finding,) = found(command)
    assert (finding["id"], finding["why"]) == ("host-use-unclear", "SGLang is not installed here")


def test_every_module_of_the_plugin_s_package_is_read_except_its_tests(command, install) -> None:
    install(NOTHING)
    command.install("pack", {GENERAL: {"pack": "pack.entry:register"}})
    for name in ("entry", "deep/hooks", "tests/hooks"):
        path = command.folder / "pack" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(HOOK.format(f"engine:gone_{name.replace('/', '_')}"))
    (command.folder / "pack" / "entry.py").open("a").write("import pack.deep.hooks\n")
    whats = [finding["what"].split()[3] for finding in found(command, 1)]
    assert whats == ["sglang.srt.engine:gone_deep_hooks", "sglang.srt.engine:gone_entry"]


def test_after_a_sound_plugin_nothing_was_left_unread(command, install) -> None:
    install(HOOK.format("engine:start"))
    assert command("doctor").stdout.splitlines()[-1] == "no problem found"


def test_the_packages_for_gpus_are_read_as_those_of_others(command, install) -> None:
    install(HOOK.format("engine:gone"))
    assert len(found(command, 1)) == 1
    metadata = command.folder / "mine_dist-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("mine-dist", "sglang-platform-cuda"))
    assert len(found(command, 1)) == 1
