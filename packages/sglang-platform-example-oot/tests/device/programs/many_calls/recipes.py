"""Hostile values as recipes: the same tensor can be made on the device, on the CPU, and again from a seed."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace
from typing import Any

import torch

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
RARE = [torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16, torch.uint64]
HUGE = [1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 63), -(1 << 31), -(1 << 40)]
"""None between 2^31 and 2^40: memory for so many exists here, and a call that takes it proves nothing."""
SLOTS = [-1, 1 << 31, (1 << 31) - 1, (1 << 32) + 1, 1 << 62, -(1 << 31), -(1 << 62)]
NUMBERS = [0.0, 1.0, -1.0, 0.5, 1e-6, math.nan, math.inf, -math.inf, 1e300, -1e-300]
LAYOUTS = ["plain", "plain", "plain", "transposed", "every second", "expanded", "offset"]
VALUES = ["draws", "draws", "zeros", "small integers", "not finite", "large", "slots"]

Recipe = "Tensor | Shared | Many | Device | Plain"


@dataclass(frozen=True)
class Tensor:
    """A tensor `shape` of `dtype` with values of a kind; `place`: here, other (device 1), cpu or meta."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    values: str = "draws"
    layout: str = "plain"
    place: str = "here"
    seed: int = 0
    data: tuple[int, ...] | None = None

    def make(self, where: str, made: list[Any]) -> torch.Tensor:
        numbers = self._numbers()
        if self.place == "meta":
            return numbers.to("meta")
        target = "cpu" if self.place == "cpu" or where == "cpu" else f"{where}:{int(self.place == 'other')}"
        return self._laid_out(numbers.to(target))

    def _numbers(self) -> torch.Tensor:
        if self.data is not None:
            return torch.tensor(self.data).to(self.dtype).reshape(self.shape)
        draw = torch.Generator().manual_seed(self.seed)
        base = torch.randn(self.shape, generator=draw)
        if self.values == "zeros":
            base = base * 0
        elif self.values == "small integers":
            base = (base * 2).round()
        elif self.values == "large":
            base = base * 1e30
        elif self.values == "not finite":
            kinds = torch.tensor([math.nan, math.inf, -math.inf, 1.0])
            base = kinds[torch.randint(4, self.shape, generator=draw)]
        elif self.values == "slots":
            kinds = torch.tensor([*SLOTS, 0, 1, 2, 3])
            base = kinds[torch.randint(len(kinds), self.shape, generator=draw)]
        if not self.dtype.is_floating_point and not self.dtype.is_complex and base.is_floating_point():
            base = base.nan_to_num(0, 3, -3).clamp(
                -(2.0**62), 2.0**62
            )  # what a conversion of more does is anyone's
        return base.to(self.dtype)

    def _laid_out(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() == 0 or self.layout == "plain":
            return x
        if self.layout == "transposed":
            return x.transpose(0, -1).contiguous().transpose(0, -1)
        if self.layout == "every second":
            return torch.stack([x, x], -1).flatten(-2)[..., ::2]
        if self.layout == "offset":
            return torch.cat([x[:1], x])[1 if x.shape[0] else 0 :]
        return x[:1].expand(x.shape) if x.shape[0] else x


@dataclass(frozen=True)
class Shared:
    """The memory of the argument numbered `of`, from element `start` on: for out= that overlaps what is read."""

    of: int
    start: int

    def make(self, where: str, made: list[Any]) -> Any:
        other = made[self.of] if self.of < len(made) else None
        if not isinstance(other, torch.Tensor):
            return other
        flat = other.as_strided(
            (max(other.numel() - self.start, 0),), (1,), other.storage_offset() + self.start
        )
        return flat if self.start else other


@dataclass(frozen=True)
class Many:
    """A list of recipes."""

    items: tuple[Any, ...]

    def make(self, where: str, made: list[Any]) -> list[Any]:
        return [item.make(where, made) for item in self.items]


@dataclass(frozen=True)
class Device:
    """A device, a generator or a storage of it: `kind`."""

    kind: str

    def make(self, where: str, made: list[Any]) -> Any:
        here = "cpu" if where == "cpu" else f"{where}:0"
        if self.kind == "generator":
            return torch.Generator(here).manual_seed(7)
        if self.kind == "storage":
            return torch.ones(8, device=here).untyped_storage()
        return torch.device({"here": here, "meta": "meta", "cpu": "cpu"}[self.kind])


@dataclass(frozen=True)
class Plain:
    """A value that is the same everywhere."""

    value: Any

    def make(self, where: str, made: list[Any]) -> Any:
        return self.value


@dataclass
class Call:
    """An operator with recipes for its arguments; `compare` False where two runs may rightly differ."""

    name: str
    positional: list[Any] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)
    compare: bool = True

    def arguments(self, where: str) -> tuple[list[Any], dict[str, Any]]:
        made: list[Any] = []
        for recipe in self.positional:
            made.append(recipe.make(where, made))
        everything = list(made)
        named = {}
        for name, recipe in self.named.items():
            named[name] = recipe.make(where, everything)
            everything.append(named[name])
        return made, named

    def places(self) -> set[str]:
        found: set[str] = set()

        def look(recipe: Any) -> None:
            if isinstance(recipe, Tensor):
                found.add(recipe.place)
            elif isinstance(recipe, Many):
                for item in recipe.items:
                    look(item)

        for recipe in [*self.positional, *self.named.values()]:
            look(recipe)
        return found


def hostile(draw: random.Random, recipe: Any, count: int) -> Any:
    """`recipe`, spoilt in one way. `count`: the arguments before it, of which it may take the memory."""
    if isinstance(recipe, Plain):
        return Plain(_other_value(draw, recipe.value))
    if not isinstance(recipe, Tensor):
        return recipe
    if recipe.data is not None and draw.random() < 0.5:
        data = list(recipe.data)
        for _ in range(draw.choice([1, 1, len(data) or 1])):
            if data:
                data[draw.randrange(len(data))] = draw.choice([*SLOTS, 0, 1, 5, 16, 17])
        if recipe.dtype == torch.int32:
            data = [(value + (1 << 31)) % (1 << 32) - (1 << 31) for value in data]
        return replace(recipe, data=tuple(data))
    way = draw.randrange(8)
    if way == 0:
        return replace(recipe, dtype=draw.choice([*FLOATS, *INTEGERS, *RARE]))
    if way == 1 and recipe.shape:
        shape = list(recipe.shape)
        axis = draw.randrange(len(shape))
        shape[axis] = draw.choice([0, 1, shape[axis] + 1, max(shape[axis] - 1, 0), 2 * shape[axis]])
        return replace(recipe, shape=tuple(shape), data=None)
    if way == 2:
        shape = draw.choice([recipe.shape[1:], (1, *recipe.shape), (*recipe.shape, 1), (), (0,)])
        return replace(recipe, shape=shape, data=None)
    if way == 3:
        return replace(recipe, place=draw.choice(["other", "cpu", "meta"]))
    if way == 4 and count:
        return Shared(draw.randrange(count), draw.choice([0, 0, 1, 3]))
    if way == 5:
        return Plain(None)
    if way == 6:
        return replace(recipe, values=draw.choice(["not finite", "large", "zeros", "slots"]), data=None)
    return replace(recipe, layout=draw.choice(LAYOUTS[3:]))


def _other_value(draw: random.Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.choice([*HUGE, 0, 1, -1, 2, 1 << 31])
    if isinstance(value, float):
        return draw.choice(NUMBERS)
    if isinstance(value, str):
        return draw.choice(["", "no such", value.upper()])
    return value
