"""The names a module's source binds, with their classes, imports and bases: what a syntax tree tells."""

from __future__ import annotations

import ast
from collections.abc import Iterable

__all__ = ["Base", "ClassScope", "Scope", "read_scope"]

Base = tuple[str, ...] | None
"""The dotted name of a base class, or None where it is an expression."""

_HARMLESS_DECORATORS = {"final", "runtime_checkable", "total_ordering"}
_HARMLESS_METACLASSES = {"ABCMeta", "type"}


class Scope:
    """What runs at the top level of a module, branches of `if` and `try` included."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.bound: set[str] = set()
        self.classes: dict[str, ClassScope] = {}
        self.imports: dict[str, tuple[str, str | None]] = {}
        self.stars: list[str] = []
        self.attributes: set[str] = set()
        """``Class.attr`` assigned from outside the class body."""
        self.open = False
        """Names may appear that the tree does not show."""

    def read(self, body: Iterable[ast.stmt]) -> None:
        for node in body:
            self._statement(node)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self.bound.add(node.name)
        elif isinstance(node, ast.ClassDef):
            self.bound.add(node.name)
            self.classes[node.name] = ClassScope(node, self.package)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                self.imports[name] = (alias.name if alias.asname else name, None)
        elif isinstance(node, ast.ImportFrom):
            self._from(node)
        else:
            self._assigned(node)
            self._blocks(node)

    def _from(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level:
            above = self.package.split(".")
            above = above[: len(above) - node.level + 1]
            module = ".".join([*above, module] if module else above)
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(module)
            else:
                self.imports[alias.asname or alias.name] = (module, alias.name)

    def _assigned(self, node: ast.stmt) -> None:
        if isinstance(node, ast.AnnAssign) and node.value is None:
            return  # a bare annotation binds nothing
        targets: list[ast.expr] = list(node.targets) if isinstance(node, ast.Assign) else []
        single = getattr(node, "target", None)
        if isinstance(single, ast.expr):
            targets.append(single)
        for item in getattr(node, "items", ()):
            if item.optional_vars is not None:
                targets.append(item.optional_vars)
        for target in targets:
            for part in ast.walk(target):
                if isinstance(part, ast.Name):
                    self.bound.add(part.id)
                elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                    self.attributes.add(f"{part.value.id}.{part.attr}")

    def _blocks(self, node: ast.stmt) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            self.read(node.orelse)
            return
        inner = False
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                inner = True
                self.read(block)
        for handler in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            self.read(handler.body)
        roots: list[ast.AST] = [node] if not inner else [getattr(node, "iter", None) or ast.Pass()]
        for root in roots:
            self._note_dynamic(root)

    def _note_dynamic(self, root: ast.AST) -> None:
        for part in ast.walk(root):
            if isinstance(part, ast.NamedExpr):
                self.bound.add(part.target.id)
            elif isinstance(part, ast.Call):
                name = part.func.id if isinstance(part.func, ast.Name) else ""
                self.open |= name in {"globals", "vars", "locals", "exec", "setattr"}
            elif isinstance(part, ast.Attribute) and part.attr == "modules":
                self.open = True  # sys.modules[__name__] = ...


class ClassScope(Scope):
    """What a class body binds, and what it stands on."""

    def __init__(self, node: ast.ClassDef, package: str) -> None:
        super().__init__(package)
        self.name = node.name
        self.bases = [_dotted(base) for base in node.bases]
        self.read(node.body)
        self.bound |= set(self.imports)
        decorators = {
            (_dotted(one.func if isinstance(one, ast.Call) else one) or ("?",))[-1]
            for one in node.decorator_list
        }
        metaclasses = [
            (_dotted(word.value) or ("?",))[-1] for word in node.keywords if word.arg == "metaclass"
        ]
        odd = decorators - _HARMLESS_DECORATORS
        self.open |= bool(odd) or any(one not in _HARMLESS_METACLASSES for one in metaclasses)
        self.only_adds_dunders = odd == {"dataclass"} and not metaclasses


def read_scope(source: str, package: str) -> Scope | None:
    """The scope of a module; `package` resolves its relative imports. None where the source does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    scope = Scope(package)
    scope.read(tree.body)
    return scope


def _dotted(node: ast.expr) -> Base:
    if isinstance(node, ast.Subscript):  # Generic[T]
        return _dotted(node.value)
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        above = _dotted(node.value)
        return None if above is None else (*above, node.attr)
    return None
