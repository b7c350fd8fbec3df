"""Boxes in layers, for the picture of the rooms: who stands where, and the bends of the arrows between them.

As Sugiyama, Tagawa and Toda (1981) do it: layers by the longest way down, a point of its own wherever an arrow crosses
a layer, an order in each layer that follows the neighbours above and below, places as near to them as widths let.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean

__all__ = ["Drawing", "lay_out", "needed_arrows"]

GAP = 18.0
WIDTH_OF_A_POINT = 4.0
SWEEPS = 24

Node = str | tuple[str, str, int]
"""A room, or the point where the arrow between two rooms crosses a layer."""


@dataclass(frozen=True)
class Drawing:
    """layers: the rooms and points of each, from the top, left to right. places: the middle of each room and its layer.
    arrows: the points that each passes, its two rooms among them."""

    layers: list[list[Node]]
    places: dict[str, tuple[float, int]]
    arrows: dict[tuple[str, str], list[tuple[float, int]]]


def needed_arrows(arrows: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The arrows that no way over other names implies; `arrows` must have no circle."""
    below: dict[str, set[str]] = {}

    def reach(name: str) -> set[str]:
        if name not in below:
            below[name] = arrows[name].union(*(reach(other) for other in arrows[name]))
        return below[name]

    return {
        name: {other for other in direct if not any(other in reach(between) for between in direct - {other})}
        for name, direct in arrows.items()
    }


def lay_out(arrows: Mapping[str, set[str]], widths: Mapping[str, float], width: float) -> Drawing:
    """Place all names of `arrows` within `width`; names keep their order where nothing else decides."""
    layer_of = _layers(arrows)
    chains: dict[tuple[str, str], list[Node]] = {}
    for above in arrows:
        for below in sorted(arrows[above], key=list(arrows).index):
            between = range(layer_of[above] + 1, layer_of[below])
            chains[above, below] = [above, *((above, below, layer) for layer in between), below]
    layers: list[list[Node]] = [[] for _ in range(max(layer_of.values()) + 1)]
    for name, layer in layer_of.items():
        layers[layer].append(name)
    up: dict[Node, list[Node]] = {node: [] for layer in layers for node in layer}
    down: dict[Node, list[Node]] = {node: [] for layer in layers for node in layer}
    for chain in chains.values():
        for node in chain[1:-1]:
            assert isinstance(node, tuple)
            layers[node[2]].append(node)
        for one, other in pairwise(chain):
            down.setdefault(one, []).append(other)
            up.setdefault(other, []).append(one)
    layers = _ordered(layers, up, down)
    x = _placed(
        layers, up, down, lambda node: widths[node] if isinstance(node, str) else WIDTH_OF_A_POINT, width
    )
    height = {node: number for number, layer in enumerate(layers) for node in layer}
    return Drawing(
        layers,
        {name: (x[name], layer_of[name]) for name in arrows},
        {ends: [(x[node], height[node]) for node in chain] for ends, chain in chains.items()},
    )


def _layers(arrows: Mapping[str, set[str]]) -> dict[str, int]:
    """The layer of each name from the top: one above the highest that it points to."""
    height: dict[str, int] = {}

    def above_ground(name: str) -> int:
        if name not in height:
            height[name] = 1 + max((above_ground(other) for other in arrows[name]), default=-1)
        return height[name]

    top = max(above_ground(name) for name in arrows)
    return {name: top - height[name] for name in arrows}


def _crossings(layers: list[list[Node]], down: Mapping[Node, list[Node]]) -> int:
    count = 0
    for upper, lower in pairwise(layers):
        where = {node: number for number, node in enumerate(lower)}
        ends = [(start, where[end]) for start, node in enumerate(upper) for end in down[node]]
        count += sum((a - c) * (b - d) < 0 for i, (a, b) in enumerate(ends) for c, d in ends[:i])
    return count


def _ordered(
    layers: list[list[Node]], up: Mapping[Node, list[Node]], down: Mapping[Node, list[Node]]
) -> list[list[Node]]:
    """The order with the fewest crossings among those that sweeping down and up goes through."""
    best, fewest = layers, _crossings(layers, down)
    for sweep in range(SWEEPS):
        layers = [list(layer) for layer in layers]
        neighbours = down if sweep % 2 else up
        numbers = range(len(layers)) if neighbours is up else reversed(range(len(layers)))
        for number in numbers:
            beside = number - 1 if neighbours is up else number + 1
            if 0 <= beside < len(layers):
                where = {node: (i + 0.5) / len(layers[beside]) for i, node in enumerate(layers[beside])}
                own = {node: (i + 0.5) / len(layers[number]) for i, node in enumerate(layers[number])}
                layers[number].sort(
                    key=lambda node, where=where, own=own: mean(  # type: ignore[misc]
                        [where[other] for other in neighbours[node]] or [own[node]]
                    )
                )
        if (crossings := _crossings(layers, down)) < fewest:
            best, fewest = layers, crossings
    return best


def _placed(
    layers: list[list[Node]],
    up: Mapping[Node, list[Node]],
    down: Mapping[Node, list[Node]],
    width_of: Callable[[Node], float],
    width: float,
) -> dict[Node, float]:
    """The middle of each, near those of its neighbours, in its layer's order and without overlap."""
    x: dict[Node, float] = {}
    for layer in layers:
        for number, node in enumerate(layer):
            x[node] = width * (number + 0.5) / len(layer)
    for _ in range(SWEEPS * 4):
        for layer in layers:
            wanted = {
                node: mean([x[other] for other in (*up[node], *down[node])] or [x[node]]) for node in layer
            }
            x |= _apart(layer, wanted, width_of, width)
    left = min(x[node] - width_of(node) / 2 for node in x)
    right = max(x[node] + width_of(node) / 2 for node in x)
    return {node: place + (width - left - right) / 2 for node, place in x.items()}


def _apart(
    layer: list[Node], wanted: Mapping[Node, float], width_of: Callable[[Node], float], width: float
) -> dict[Node, float]:
    """The places nearest to the wanted ones, by least squares, that keep the order and a gap.

    With what must lie to the left of each taken off, the places only have to rise: neighbours that would fall are
    pooled, and share their mean.
    """
    offset, edge = [], 0.0
    for node in layer:
        offset.append(edge + width_of(node) / 2)
        edge += width_of(node) + GAP
    room = max(width - (edge - GAP), 0.0)
    pools: list[list[float]] = []
    for node, taken in zip(layer, offset, strict=True):
        pools.append([wanted[node] - taken])
        while len(pools) > 1 and mean(pools[-2]) > mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    rising = [mean(pool) for pool in pools for _ in pool]
    return {
        node: taken + min(max(place, 0.0), room)
        for node, taken, place in zip(layer, offset, rising, strict=True)
    }
