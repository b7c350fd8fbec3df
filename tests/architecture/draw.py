"""Draw the import graph of the rooms into `docs/import_graph.svg`: `python tests/architecture/draw.py`.

Rooms are boxes in layers, each above all that it imports. Left out are arrows that others imply: where `cli` imports
`inspect` and `inspect` imports `errors`, no arrow is drawn from `cli` to `errors`. How many imports an arrow stands for
is not drawn, so that the picture changes only where an arrow comes or goes. The same sources give the same bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from import_graph import ROOT, Graph, Import, circles, our_graph
from layers import Drawing, lay_out, needed_arrows
from rooms import BESIDE_CORE, CORE_ROOMS, room_of

__all__ = ["PICTURE", "arrows_between_rooms", "picture"]

PICTURE = ROOT / "docs" / "import_graph.svg"

WIDTH, MARGIN = 800, 16
BOX_HEIGHT, LAYER_HEIGHT, TOP = 34, 92, 144
PORT = 13  # between arrows that leave or reach one side of a box
LETTER = 7.4  # width of one, in the font of the room names
SPECIAL = {"sglang": "imports SGLang"}


def arrows_between_rooms(imports: Iterable[Import]) -> set[tuple[str, str]]:
    """Which room imports which; imports of all kinds, those inside functions and for types as well."""
    return {
        (above, below)
        for one in imports
        if (above := room_of(one.importer)) != (below := room_of(one.imported))
    }


def picture(graph: Graph) -> str:
    """The picture as SVG. Raises ValueError where the rooms of core are in a circle, which has no layers."""
    arrows: dict[str, set[str]] = {room: set() for room in CORE_ROOMS}
    for above, below in arrows_between_rooms(graph.own):
        if {above, below} <= CORE_ROOMS.keys():
            arrows[above].add(below)
    if ring := circles(arrows):
        raise ValueError(f"rooms in a circle: {ring}")
    needed = needed_arrows(arrows)
    widths = {
        room: max(
            len(room) * LETTER + 22, len(SPECIAL.get(room, "")) * 5.6 + 18, len(needed[room]) * PORT + 6
        )
        for room in CORE_ROOMS
    }
    return _svg(lay_out(needed, widths, WIDTH - 4 * MARGIN), widths, BESIDE_CORE)


def _svg(
    drawing: Drawing,
    widths: Mapping[str, float],
    beside: Sequence[str],
) -> str:
    height = TOP + (len(drawing.layers) - 1) * LAYER_HEIGHT + BOX_HEIGHT + 56
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="Helvetica,Arial,sans-serif" fill="#0f172a">',
        "<title>What imports what: the rooms of core in layers, and the distributions that stand on core</title>",
        '<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L10 5L0 10z" fill="#64748b"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="#f8fafc"/>',
        _frame(height),
    ]
    step = (WIDTH - 2 * MARGIN) / len(beside)
    for number, name in enumerate(beside):
        center = MARGIN + step * (number + 0.5)
        parts.append(_box(name, center, 16, step - 24, "#dbeafe"))
        parts.append(_line([(center, 16 + BOX_HEIGHT), (center, TOP - 56)]))
    for points in _at_ports(drawing):
        parts.append(_line([(2 * MARGIN + x, y) for x, y in points]))
    for room, (x, layer) in drawing.places.items():
        fill = "#dcfce7" if room in SPECIAL else "#e0e7ff"
        parts.append(_box(room, 2 * MARGIN + x, _y(layer), widths[room], fill, SPECIAL.get(room, "")))
    return "\n".join([*parts, "</svg>", ""])


def _at_ports(drawing: Drawing) -> Iterator[list[tuple[float, float]]]:
    """The points of each arrow: from a place of its own below a room, upright past each layer, to one above a room."""
    starts: dict[str, list[tuple[float, tuple[str, str]]]] = defaultdict(list)
    ends: dict[str, list[tuple[float, tuple[str, str]]]] = defaultdict(list)
    for (above, below), points in drawing.arrows.items():
        starts[above].append((points[1][0], (above, below)))
        ends[below].append((points[-2][0], (above, below)))
    for (above, below), points in drawing.arrows.items():
        first = points[0][0] + _port((above, below), starts[above])
        last = points[-1][0] + _port((above, below), ends[below])
        past = [(x, _y(layer) + side) for x, layer in points[1:-1] for side in (-4, BOX_HEIGHT + 4)]
        start, end = (first, _y(points[0][1]) + BOX_HEIGHT), (last, _y(points[-1][1]))
        yield [start, *past, end]


def _port(arrow: tuple[str, str], beside: list[tuple[float, tuple[str, str]]]) -> float:
    """How far from the middle of its box an arrow ends, so that arrows beside each other do not cross there."""
    position = [one for _, one in sorted(beside)].index(arrow)
    return (position - (len(beside) - 1) / 2) * PORT


def _y(layer: int) -> float:
    return TOP + layer * LAYER_HEIGHT


def _frame(height: int) -> str:
    top = TOP - 54
    return (
        f'<rect x="{MARGIN}" y="{top}" width="{WIDTH - 2 * MARGIN}" height="{height - top - 34}" rx="10" '
        'fill="#fff" stroke="#334155" stroke-width="1.5"/>'
        f'<text x="{2 * MARGIN}" y="{top + 24}" font-size="15" font-weight="600">core</text>'
        f'<text x="{WIDTH / 2}" y="{height - 13}" font-size="12" fill="#475569" text-anchor="middle">'
        "An arrow goes to what is imported. Arrows that others imply are left out.</text>"
    )


def _box(name: str, x: float, y: float, width: float, fill: str, note: str = "") -> str:
    text = y + (15 if note else 22)
    drawn = (
        f'<rect x="{x - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" height="{BOX_HEIGHT}" rx="7" '
        f'fill="{fill}" stroke="#334155" stroke-width="1.2"/>'
        f'<text x="{x:.1f}" y="{text:.1f}" font-size="14" text-anchor="middle">{escape(name)}</text>'
    )
    if note:
        drawn += f'<text x="{x:.1f}" y="{y + 29:.1f}" font-size="11" fill="#475569" text-anchor="middle">{note}</text>'
    return drawn


def _line(points: list[tuple[float, float]]) -> str:
    """A curve through the points, upright at each."""
    (x, y), *rest = points
    path = f"M{x:.1f} {y:.1f}"
    for next_x, next_y in rest:
        middle = (y + next_y) / 2
        path += f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {next_y - (1 if next_y else 0):.1f}"
        x, y = next_x, next_y
    return f'<path d="{path}" fill="none" stroke="#64748b" stroke-width="1.3" marker-end="url(#a)"/>'


if __name__ == "__main__":
    PICTURE.write_text(picture(our_graph()), encoding="utf-8")
    print(f"written: {PICTURE.relative_to(ROOT)}")
