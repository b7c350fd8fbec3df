"""Small changes to a C++ kernel, one at a time, and the library built with one.

comparison   < to <=, > to >=, == to !=, and back        number     + 1 to + 2, = 0; to = 1;
arithmetic   + to -, - to +, += to -=                    logic      && to ||, and back
statement    an assignment of one line left out
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from areas import ROOT

sys.path.insert(0, str(Path(__file__).parents[1]))

from generated_mutations import Mutation

__all__ = ["EXAMPLE", "built", "cpp_mutations", "loading"]

EXAMPLE = ROOT / "packages" / "sglang-platform-example-oot" / "src" / "sglang_platform" / "example_oot"
_NATIVE = EXAMPLE / "kernels" / "native.py"

_SECONDS = 1800

_CHANGES = (
    ("comparison", re.compile(r"(?<=[\w)\]]) < (?=[\w(])"), " <= "),
    ("comparison", re.compile(r"(?<=[\w)\]]) > (?=[\w(])"), " >= "),
    ("comparison", re.compile(r" <= "), " < "),
    ("comparison", re.compile(r" >= "), " > "),
    ("comparison", re.compile(r" == "), " != "),
    ("comparison", re.compile(r" != "), " == "),
    ("arithmetic", re.compile(r"(?<=[\w)\]]) \+ (?=[\w(])"), " - "),
    ("arithmetic", re.compile(r"(?<=[\w)\]]) - (?=[\w(])"), " + "),
    ("arithmetic", re.compile(r" \+= "), " -= "),
    ("number", re.compile(r"(?<=[+-] )1\b(?!\.)"), "2"),
    ("number", re.compile(r"(?<== )0(?=;)"), "1"),
    ("logic", re.compile(r" && "), " || "),
    ("logic", re.compile(r" \|\| "), " && "),
)
_STATEMENT = re.compile(r"^(\s+)[\w\[\]>.-]+(\([^;]*\))?(\[[^;]*\])? [-+*]?= [^;{]+;$")
_LEFT_ALONE = re.compile(r"^\s*(//|#|template|using|static_assert|constexpr|TORCH_CHECK|return TORCH)")


def cpp_mutations(file: str, text: str) -> list[Mutation]:
    """Every change of one place, in the order of the places. Comments, templates and checks of arguments stay."""
    return list(_mutations(file, text.splitlines(keepends=True)))


def _mutations(file: str, lines: list[str]) -> Iterator[Mutation]:
    for at, line in enumerate(lines):
        code, _, _ = line.rstrip("\n").partition("//")
        if _LEFT_ALONE.match(line) or "TORCH_CHECK" in line or "template" in line:
            continue
        for kind, pattern, new in _CHANGES:
            for found in pattern.finditer(code):
                changed = f"{line[: found.start()]}{new}{line[found.end() :]}"
                yield _mutation(file, lines, at, kind, changed)
        if _STATEMENT.match(code):
            yield _mutation(file, lines, at, "statement", "\n")


def _mutation(file: str, lines: list[str], at: int, kind: str, changed: str) -> Mutation:
    text = "".join([*lines[:at], changed, *lines[at + 1 :]])
    return Mutation(file, at + 1, kind, lines[at].strip(), changed.strip() or "(left out)", text)


def built(mutation: Mutation, folder: Path) -> Path:
    """The library with the change, built in a process of its own, since the build loads it. `folder` is kept between
    builds: only what the change reaches is compiled again. Raises RuntimeError with the compiler's words."""
    sources = folder / "csrc"
    for path in sorted((EXAMPLE / "csrc").rglob("*.*")):
        here = sources / path.relative_to(EXAMPLE / "csrc")
        wanted = mutation.text if str(path.relative_to(ROOT)) == mutation.file else path.read_text()
        _write(here, wanted)
    command = [sys.executable, __file__, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode != 0:
        said = [line for line in done.stdout.splitlines() if "error" in line] or done.stderr.splitlines()
        raise RuntimeError(said[0] if said else f"the compiler ended with {done.returncode}")
    return folder / "build" / "mutated_kernels.so"


def main() -> int:
    """Builds what lies in `csrc` below the folder given."""
    from torch.utils import cpp_extension

    from sglang_platform.example_oot.kernels import native

    folder = Path(sys.argv[1])
    native.SOURCES = folder / "csrc"
    units = []
    with tempfile.TemporaryDirectory() as fresh:
        for unit in native._units(Path(fresh)):
            kept = folder / "units" / unit.name if unit.parent == Path(fresh) else unit
            _write(kept, unit.read_text())
            units.append(str(kept))
    build = folder / "build"
    build.mkdir(exist_ok=True)
    os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], str(Path(sys.executable).parent)])
    cpp_extension.load(
        name="mutated_kernels",
        sources=units,
        extra_cflags=native.FLAGS,
        build_directory=str(build),
        is_python_module=False,
    )
    return 0


def _write(path: Path, text: str) -> None:
    """A file that has the text already keeps its time, and what it is compiled to."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def loading(library: Path, folder: Path) -> str:
    """The text of the module that loads the kernels, changed to load this library."""
    kept = folder / f"{library.stem}-in-use.so"
    shutil.copy(library, kept)
    changed = f"\n\ndef _built(retry: bool) -> Path:\n    return Path({str(kept)!r})\n"
    text = _NATIVE.read_text().replace("Path(__file__).parent.parent", f"Path({str(EXAMPLE)!r})")
    return text + changed


if __name__ == "__main__":
    sys.exit(main())
