"""The truth for `measure.py`, made without any of core's readers: plain `ast` on the files that the probe plugin names.

Each line of `plugin/` that depends on SGLang says in a comment by what, in which file of SGLang, and under which name.
This script looks at that name in that file in every release, follows no import, resolves no type, and writes down where
two releases following each other differ: `truth.csv`. The rows were then read beside SGLang's sources.

    python benchmarks/upgrade/make_truth.py --wheels FOLDER --installed SITE_PACKAGES
"""

from __future__ import annotations

import argparse
import ast
import csv
import functools
import re
import zipfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
PLUGIN = HERE / "plugin" / "src" / "upgrade_probe"
TABLE = HERE / "truth.csv"
RELEASES = [f"0.5.{number}" for number in range(11, 24)]
MARK = re.compile(
    r"# (import|base|override|call|construct|field|unpack|hook|patch|environment|argument|name): (\S+)(?: (.+))?$"
)
ARGUMENT_CLASSES = "srt/arg_groups/fields/"


class Marked(NamedTuple):
    """A line of the probe plugin with what its comment says."""

    file: str
    line: int
    kind: str
    where: str
    name: str


class Files:
    """The Python files of one release by their path below `sglang/`."""

    def __init__(self, release: str, wheels: Path, installed: Path) -> None:
        found = next(iter(wheels.glob(f"sglang-{release}-*.whl")), None)
        self._archive = zipfile.ZipFile(found) if found is not None else None
        self._root = installed / "sglang"
        names = (
            self._archive.namelist()
            if self._archive
            else [str(path.relative_to(installed)) for path in self._root.rglob("*.py")]
        )
        self.names = {
            name.removeprefix("sglang/")
            for name in names
            if name.startswith("sglang/") and name.endswith(".py")
        }

    @functools.cache  # noqa: B019 - one object per release
    def text(self, name: str) -> str:
        if self._archive is not None:
            return self._archive.read(f"sglang/{name}").decode()
        return (self._root / name).read_text(encoding="utf-8")

    @functools.cache  # noqa: B019
    def tree(self, name: str) -> ast.Module:
        return ast.parse(self.text(name))


def marked_lines() -> Iterator[Marked]:
    """The lines with a mark, and every name that is imported from SGLang."""
    for path in sorted(PLUGIN.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sglang."):
                file = (node.module or "").removeprefix("sglang.").replace(".", "/") + ".py"
                for alias in node.names:
                    yield Marked(path.name, node.lineno, "import", file, alias.name)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = MARK.search(line)
            if found is not None and found[1] != "import":
                yield Marked(path.name, number, found[1], found[2], found[3] or "")
                if found[1] == "unpack":  # what is taken apart is called as well
                    yield Marked(path.name, number, "call", found[2], found[3] or "")
                if "ServerArgs(" in line and found[1] == "name":
                    yield Marked(path.name, number, "construct", "ServerArgs", "")


@functools.cache
def top_level(files: Files, name: str) -> dict[str, ast.AST]:
    """What a file binds, those under conditions too; a package's `import *` is followed into the file beside it."""
    bound: dict[str, ast.AST] = {}

    def block(body: list[ast.stmt]) -> None:
        for one in body:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                bound[one.name] = one
            elif isinstance(one, ast.Assign):
                for target in one.targets:  # a function stays one that is given another on some device
                    if isinstance(target, ast.Name) and not isinstance(bound.get(target.id), ast.FunctionDef):
                        bound[target.id] = one
            elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                bound[one.target.id] = one
            elif isinstance(one, ast.Import | ast.ImportFrom):
                for alias in one.names:
                    if alias.name == "*" and isinstance(one, ast.ImportFrom):
                        other = (one.module or "").removeprefix("sglang.").replace(".", "/") + ".py"
                        if one.level:
                            other = f"{name.rpartition('/')[0]}/{one.module}.py"
                        if other in files.names:
                            bound.update(
                                {k: v for k, v in top_level(files, other).items() if not k.startswith("_")}
                            )
                    else:
                        bound[alias.asname or alias.name.partition(".")[0]] = one
            elif isinstance(one, ast.If) and "TYPE_CHECKING" in ast.unparse(one.test):
                block(one.orelse)
            elif isinstance(one, ast.If | ast.Try | ast.With):
                for part in ("body", "orelse", "finalbody"):
                    block(getattr(one, part, []))
                for handler in getattr(one, "handlers", []):
                    block(handler.body)

    block(files.tree(name).body)
    # A lazy table of names: {"Name": "sglang.module"}, as a package's __getattr__ reads it.
    if "__getattr__" in bound:
        for node in ast.walk(files.tree(name)):
            if isinstance(node, ast.Dict):
                for key in node.keys:
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        bound.setdefault(key.value, node)
    return bound


def spelled(files: Files, where: str) -> str | None:
    """The file of a module, which may have become a package."""
    package = where.removesuffix(".py") + "/__init__.py"
    return where if where in files.names else package if package in files.names else None


def parameters(node: Any, *, method: bool) -> list[str]:
    decorators = {ast.unparse(one) for one in node.decorator_list}
    spec = node.args
    plain = [*spec.posonlyargs, *spec.args]
    optional = len(plain) - len(spec.defaults)
    words = [one.arg + ("=" if i >= optional else "") for i, one in enumerate(plain)]
    if method and "staticmethod" not in decorators:
        words = words[1:]
    if spec.vararg:
        words.append("*" + spec.vararg.arg)
    elif spec.kwonlyargs:
        words.append("*")
    words += [
        one.arg + ("=" if default else "")
        for one, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
    ]
    return words + (["**" + spec.kwarg.arg] if spec.kwarg else [])


def kind_word(node: Any) -> str:
    words = {ast.unparse(one).rpartition(".")[2] for one in node.decorator_list}
    kinds = sorted(words & {"property", "cached_property", "classmethod", "staticmethod"})
    return " ".join((*kinds, "async" if isinstance(node, ast.AsyncFunctionDef) else "")).strip()


def returned(node: Any) -> set[int | str]:
    """The lengths of the tuples that a function returns; "?" for anything else."""
    found: set[int | str] = set()
    waiting: list[ast.AST] = list(node.body)
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(one, ast.Return):
            if isinstance(one.value, ast.Tuple):
                found.add(len(one.value.elts))
            elif one.value is not None and not (
                isinstance(one.value, ast.Constant) and one.value.value is None
            ):
                found.add("?")
        waiting.extend(ast.iter_child_nodes(one))
    return found


def members(node: ast.ClassDef) -> dict[str, ast.AST]:
    found: dict[str, ast.AST] = {}
    for one in ast.walk(node):
        if (
            isinstance(one, ast.Attribute)
            and isinstance(one.ctx, ast.Store)
            and ast.unparse(one.value) == "self"
        ):
            found.setdefault(one.attr, one)
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            found[statement.name] = statement
        elif isinstance(statement, ast.AnnAssign):
            found[ast.unparse(statement.target)] = statement
        elif isinstance(statement, ast.Assign):
            found.update({ast.unparse(target): statement for target in statement.targets})
    return found


def class_of(files: Files, file: str, name: str) -> ast.ClassDef | None:
    found = top_level(files, file).get(name) if file in files.names else None
    return found if isinstance(found, ast.ClassDef) else None


def located(files: Files, marked: Marked) -> tuple[str, ast.AST] | None:
    """The node of ``Class.member`` or of a name, in the first of the files that has it; bases within a file count."""
    wheres, names = marked.where.split("|"), marked.name.split("|")
    for place, where in enumerate(wheres):
        file = spelled(files, where)
        if file is None:
            continue
        first, _, member = names[min(place, len(names) - 1)].partition(".")
        found = top_level(files, file).get(first)
        if found is None:
            continue
        if not member:
            return file, found
        waiting = [found]
        while waiting:
            one = waiting.pop(0)
            if isinstance(one, ast.ClassDef):
                inner = members(one)
                if member in inner:
                    return file, inner[member]
                waiting += [
                    other
                    for base in one.bases
                    if (other := top_level(files, file).get(ast.unparse(base))) is not None
                ]
    return None


def fields(files: Files, file: str, name: str) -> list[str]:
    """The parameters of a record's constructor, those of its bases in the same file first."""
    node = class_of(files, file, name)
    if node is None:
        return []
    found: list[str] = []
    for base in node.bases:
        found += fields(files, file, ast.unparse(base))
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and "ClassVar" not in ast.unparse(one.annotation):
            name_, default = ast.unparse(one.target), one.value
            if isinstance(default, ast.Call) and ast.unparse(default.func).endswith("field"):
                if any(
                    word.arg == "init" and ast.unparse(word.value) == "False" for word in default.keywords
                ):
                    continue
                has_default = any(word.arg in ("default", "default_factory") for word in default.keywords)
            else:
                has_default = default is not None
            found.append(name_ + ("=" if has_default else ""))
    return found


@functools.cache
def arguments(files: Files) -> set[str]:
    """The fields of ServerArgs, and the flags of the command line by the same names."""
    found: set[str] = set()
    for file in files.names:
        if file == "srt/server_args.py" or file.startswith(ARGUMENT_CLASSES):
            for node in files.tree(file).body:
                if isinstance(node, ast.ClassDef) and (
                    node.name == "ServerArgs" or file.startswith(ARGUMENT_CLASSES)
                ):
                    found |= set(members(node))
    return found


@functools.cache
def flags(files: Files) -> str:
    return "".join(
        files.text(name) for name in files.names if name.startswith(("srt/server_args", "srt/arg_groups/"))
    )


def state(files: Files, marked: Marked) -> tuple[str, str] | None:
    """What the release has there, as a text that is compared, and the place; None: nothing."""
    kind, where, name = marked.kind, marked.where, marked.name
    if kind == "environment":
        return variable(files, where)
    if kind == "argument":
        has = where in arguments(files) or f'"--{where.replace("_", "-")}"' in flags(files)
        return ("taken", "srt/server_args.py") if has else None
    if kind == "name":
        return table(files, where, name)
    if kind == "field" and where == "ServerArgs":
        return ("field", "srt/server_args.py") if name in arguments(files) else None
    if kind == "base":
        return bases(files, marked)
    if kind == "construct" and where == "ServerArgs":
        return " ".join(
            sorted(one for one in arguments(files) if not one.startswith("__"))
        ), "srt/server_args.py"
    if kind == "construct":
        file = spelled(files, where)
        node = class_of(files, file, name) if file is not None else None
        if node is None or file is None:
            return None
        initial = members(node).get("__init__")
        spec = parameters(initial, method=True) if initial is not None else fields(files, file, name)
        return ", ".join(spec), f"{file}:{node.lineno}"
    found = located(files, marked)
    if found is None:
        return None
    file, node = found
    place = f"{file}:{getattr(node, 'lineno', 0)}"
    if kind in ("import", "field"):
        return "there", place
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return "there", place
    if kind == "unpack":
        return str(sorted(map(str, returned(node)))), place
    if kind in ("hook", "patch") and "." not in name and not used(files, name):
        return "there, and nothing uses it", place
    text = f"{kind_word(node)} ({', '.join(parameters(node, method='.' in name))})".strip()
    if kind == "override" and len(lengths := returned(node)) == 1 and "?" not in lengths:
        text += f" -> {lengths.pop()}"
    return text, place


def used(files: Files, name: str) -> bool:
    """Does any file import, read or call it?"""
    word = re.compile(rf"\.{name}\b|(?<!def )\b{name}\(|import\b[^#]*?\b{name}\b|^\s+{name},$", re.M)
    return any(
        name in files.text(file) and word.search(files.text(file))
        for file in sorted(files.names)
        if not re.search(r"(^|/)tests?/", file)
    )


def bases(files: Files, marked: Marked) -> tuple[str, str] | None:
    """Its bases, and the methods that do nothing but refuse, in the classes that the mark lists."""
    texts: list[str] = []
    duties: set[str] = set()
    seen = own_names(marked)  # what a class nearer to the plugin's writes is no duty
    place = ""
    wheres = re.findall(r"(srt/\S+?\.py) (\w+)", f"{marked.where} {marked.name}".replace(";", " "))
    for file, name in wheres:
        node = class_of(files, file, name)
        if node is None:
            return None
        place = place or f"{file}:{node.lineno}"
        texts.append(", ".join(map(ast.unparse, node.bases)))
        for one in node.body:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and not one.name.startswith("__"):
                body = [
                    x for x in one.body if not (isinstance(x, ast.Expr) and isinstance(x.value, ast.Constant))
                ]
                refuses = (
                    len(body) == 1
                    and isinstance(body[0], ast.Raise)
                    and "NotImplemented" in ast.unparse(body[0])
                )
                if one.name not in seen and (
                    refuses or any("abstractmethod" in ast.unparse(d) for d in one.decorator_list)
                ):
                    duties.add(one.name)
        seen |= set(members(node))
    return f"{texts[0]} | {' '.join(sorted(duties))}", place


def own_names(marked: Marked) -> set[str]:
    """What the probe's class at the marked line writes itself."""
    tree = ast.parse((PLUGIN / marked.file).read_text())
    found = next(one for one in tree.body if isinstance(one, ast.ClassDef) and one.lineno == marked.line)
    return {one.name for one in found.body if isinstance(one, ast.FunctionDef)}


def variable(files: Files, name: str) -> tuple[str, str] | None:
    for node in ast.walk(files.tree("srt/environ.py")):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.unparse(node.value), f"srt/environ.py:{node.lineno}"
    for file in sorted(files.names):
        if file.startswith("srt/") and f'"{name}"' in files.text(file):
            text = files.text(file)
            near = text[max(0, text.index(f'"{name}"') - 300) : text.index(f'"{name}"')]
            old = "deprecat" in near.lower()
            return "deprecated" if old else "read", f"{file}:{text[: text.index(name)].count(chr(10)) + 1}"
    return None


def table(files: Files, where: str, name: str) -> tuple[str, str] | None:
    if where.startswith("register_"):
        for file in sorted(files.names):
            if f'{where}("{name}")' in files.text(file):
                return "listed", file
        return None
    for file in sorted(files.names):
        if file.startswith(("srt/server_args", "srt/arg_groups/")) and f"{where} = [" in files.text(file):
            node = top_level(files, file).get(where)
            listed = (
                node.value.elts if isinstance(node, ast.Assign) and isinstance(node.value, ast.List) else []
            )
            if name in [one.value for one in listed if isinstance(one, ast.Constant)]:
                return "listed", f"{file}:{getattr(node, 'lineno', 0)}"
    return None


def differs(marked: Marked, old: tuple[str, str] | None, new: tuple[str, str] | None) -> str | None:
    """gone or changed; None where a plugin written for the older release has nothing to know."""
    if old is None:
        return None
    if new is None:
        return (
            None if marked.kind in ("base", "call", "construct", "unpack") else "gone"
        )  # told as an import or field
    if old[0] == new[0]:
        return None
    if marked.kind == "environment" and new[0] != "deprecated" and (old[0] + new[0]).count("Env") != 2:
        return None  # where a variable is read, its default stands in no place that can be compared
    if marked.kind == "base":
        (was, duties), (now, more) = old[0].split(" | "), new[0].split(" | ")
        return "changed" if was != now or set(more.split()) - set(duties.split()) else None
    return "changed"


def is_taken(files: Files, marked: Marked, old: tuple[str, str] | None, new: tuple[str, str] | None) -> bool:
    """Does the newer release give a class a name that the plugin's subclass had for itself?"""
    if marked.kind != "override" or old is not None or new is None:
        return False
    file = spelled(files, marked.where.partition("|")[0])
    return file is not None and class_of(files, file, marked.name.partition(".")[0]) is not None


def apart(was: str, now: str) -> tuple[str, str]:
    """Both texts, and of long ones the words that the other has not."""
    if len(was) + len(now) < 1000:
        return was, now
    one, other = was.split(), now.split()
    return " ".join(w for w in one if w not in other), " ".join(w for w in other if w not in one)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--installed", type=Path, required=True, help="site-packages with the newest release")
    options = parser.parse_args()
    releases = {name: Files(name, options.wheels, options.installed) for name in RELEASES}
    rows = 0
    with TABLE.open("w", newline="", encoding="utf-8") as out:
        table_ = csv.writer(out, lineterminator="\n")
        table_.writerow(["file", "line", "kind", "coupling", "step", "change", "was", "is", "place"])
        for marked in marked_lines():
            states = {name: state(files, marked) for name, files in releases.items()}
            said = [marked.file, marked.line, marked.kind, f"{marked.where} {marked.name}".strip()]
            if not any(states.values()):
                raise SystemExit(f"{marked}: in no release")
            found = False
            for before, after in pairwise(RELEASES):
                old, new = states[before], states[after]
                how, kind = differs(marked, old, new), marked.kind
                if how is None and is_taken(releases[before], marked, old, new):
                    how, kind = "taken", "base"
                if how is not None:
                    found = True
                    was, now = apart(old[0] if old else "", new[0] if new else "")
                    row = [*said[:2], kind, said[3], after, how, was, now, old[1] if old else ""]
                    table_.writerow(row)
                    rows += 1
            if not found:
                place = next(one[1] for one in states.values() if one)
                table_.writerow([*said, "", "never", "", "", place])
    print(f"{rows} changes of {len(list(marked_lines()))} couplings in {len(RELEASES) - 1} steps: {TABLE}")


if __name__ == "__main__":
    main()
