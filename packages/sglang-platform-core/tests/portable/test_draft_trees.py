"""Trees of draft tokens against plain loops that follow the definition."""

from __future__ import annotations

import random

import pytest
import torch

from sglang_platform.core.portable.torch.speculative import candidates, slots, tree, verify

Parents = list[int]


def _random_tree(n: int, source: random.Random) -> Parents:
    return [-1, *(source.randrange(i) for i in range(1, n))]


def _mask(parents: Parents) -> list[list[bool]]:
    rows = []
    for node in range(len(parents)):
        seen, at = [False] * len(parents), node
        while at >= 0:
            seen[at] = True
            at = parents[at]
        rows.append(seen)
    return rows


def _children(parents: Parents, node: int) -> list[int]:
    return [child for child, parent in enumerate(parents) if parent == node]


@pytest.mark.parametrize("seed", range(8))
def test_a_mask_gives_positions_and_links(seed: int) -> None:
    source = random.Random(seed)
    trees = [_random_tree(7, source) for _ in range(3)]
    masks = torch.tensor([_mask(parents) for parents in trees])
    positions, (first, sibling) = tree.read_tree(masks, torch.tensor([4, 0, 9]))
    for b, (parents, length) in enumerate(zip(trees, (4, 0, 9), strict=True)):
        for node in range(7):
            assert positions[b, node] == length + sum(_mask(parents)[node]) - 1
            children = _children(parents, node)
            assert first[b, node] == (children[0] if children else -1)
            later = [k for k in _children(parents, parents[node]) if k > node] if node else []
            assert sibling[b, node] == (later[0] if later else -1)


def _candidates(
    topk: int, depth: int, keep: int, source: random.Random
) -> tuple[list[int], list[int], Parents]:
    """Beams as a draft model grows them: `parent_list`, what was kept, and the parents of the kept as nodes."""
    of_candidate = dict.fromkeys(range(topk), -1)  # the candidate that each hangs under
    groups, beams, known = [-1], list(range(topk)), topk
    for _ in range(depth - 1):
        groups += beams
        grown = [known + i for i in range(topk * topk)]
        for place, candidate in enumerate(grown):
            of_candidate[candidate] = beams[place // topk]
        known += topk * topk
        beams = sorted(source.sample(grown, topk))
    kept: list[int] = []
    while len(kept) < keep:  # a child is kept with its parent: its score is no larger
        free = [c for c, over in of_candidate.items() if c not in kept and (over < 0 or over in kept)]
        kept.append(source.choice(free))
    kept.sort()
    nodes = {candidate: place + 1 for place, candidate in enumerate(kept)}
    return groups, kept, [-1, *(nodes.get(of_candidate[c], 0) for c in kept)]


@pytest.mark.parametrize("seed", range(8))
def test_scores_give_the_tree(seed: int) -> None:
    source = random.Random(seed)
    topk, depth = source.choice(((1, 3), (2, 3), (4, 2), (3, 4)))
    groups, kept, parents = _candidates(topk, depth, min(5, topk * depth), source)
    mask, positions, _ = tree.build_tree(
        torch.tensor([groups]), torch.tensor([kept]), torch.tensor([11]), topk, depth
    )
    assert mask[0].tolist() == _mask(parents)
    assert positions[0].tolist() == [10 + sum(row) for row in _mask(parents)]


@pytest.mark.parametrize("seed", range(12))
def test_a_path_is_accepted_while_the_target_chose_it(seed: int) -> None:
    source = random.Random(seed)
    trees = [_random_tree(8, source) for _ in range(3)]
    tokens = [[source.randrange(4) for _ in range(8)] for _ in trees]
    chosen = [[source.randrange(4) for _ in range(8)] for _ in trees]
    masks = torch.tensor([_mask(parents) for parents in trees])
    _, links = tree.read_tree(masks, torch.zeros(3, dtype=torch.int64))
    most = 4
    index = torch.full((3, most), -1, dtype=torch.int32)
    count = torch.zeros(3, dtype=torch.int32)
    predicts = torch.full((24,), -7, dtype=torch.int32)
    verify.accept(predicts, index, count, torch.tensor(tokens), links, torch.tensor(chosen))
    for b, parents in enumerate(trees):
        path = [0]
        while len(path) < most:
            fits = [c for c in _children(parents, path[-1]) if tokens[b][c] == chosen[b][path[-1]]]
            if not fits:
                break
            path.append(fits[0])
        assert index[b].tolist() == [8 * b + node for node in path] + [-1] * (most - len(path))
        assert count[b] == len(path) - 1
        for node in range(8):
            assert predicts[8 * b + node] == (chosen[b][node] if node in path else -7)


def test_drawn_tokens_follow_the_distribution() -> None:
    probabilities = torch.tensor([0.0, 0.5, 0.0, 0.3, 0.2, 0.0]).expand(1, 1, 6)
    coins = torch.linspace(0, 0.9999, 1000)
    drawn = verify.draw(probabilities.expand(1, 1000, 6), coins[None])[0]
    assert torch.bincount(drawn, minlength=6).tolist() == pytest.approx([0, 500, 0, 300, 200, 0], abs=2)
    assert (
        verify.draw(probabilities, torch.tensor([[1.0]])).item() == 4
    )  # rounded up, and still a possible token


def test_the_likeliest_are_kept() -> None:
    rows = torch.tensor([[0.1, 0.4, 0.3, 0.2], [0.25, 0.25, 0.4, 0.1]])
    kept = verify.keep_top_k(rows, torch.tensor([2, 1]))
    torch.testing.assert_close(kept, torch.tensor([[0, 4 / 7, 3 / 7, 0], [0, 0, 1.0, 0]]))
    kept = verify.keep_top_p(rows, torch.tensor([0.65, 1e-6]))
    torch.testing.assert_close(kept, torch.tensor([[0, 4 / 7, 3 / 7, 0], [0, 0, 1.0, 0]]))


def test_beams_continue_the_best() -> None:
    scores = torch.tensor([[0.6, 0.4]])
    probabilities = torch.tensor([[0.9, 0.1], [0.8, 0.2]])
    tokens = torch.tensor([[11, 12], [21, 22]])
    hidden = torch.tensor([[1.0], [2.0]])
    got, continued, best, (grown, offered, places) = candidates.next_beams(
        1, probabilities, tokens, hidden, scores, 2
    )
    assert got.tolist() == [11, 21]
    assert continued is not None
    assert continued[:, 0].tolist() == [1.0, 2.0]
    torch.testing.assert_close(best, torch.tensor([[0.54, 0.32]]))
    torch.testing.assert_close(grown[0], torch.tensor([[0.54, 0.06], [0.32, 0.08]]))
    assert offered.tolist() == [[11, 12, 21, 22]]
    assert places.tolist() == [[2 + 0, 2 + 2]]


def test_later_beams_of_several_requests_have_their_own_places() -> None:
    """Of two requests with three beams each, in the third step: hidden states are the request's own, and places count
    on behind the candidates of both steps before."""
    scores = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    likely = torch.tensor([0.7, 0.2, 0.1])
    probabilities = likely.expand(6, 3)
    tokens = torch.arange(18).view(6, 3)
    hidden = torch.arange(6.0)[:, None]
    got, continued, _, (_, _, places) = candidates.next_beams(2, probabilities, tokens, hidden, scores, 3)
    assert got.tolist() == [0, 3, 6, 15, 12, 9]
    assert continued is not None
    assert continued[:, 0].tolist() == [0, 1, 2, 5, 4, 3]
    before = 3 + 3 * 3
    assert places.tolist() == [[before + at for at in row] for row in ([0, 3, 6], [6, 3, 0])]


def test_slots_are_read_and_written_where_they_belong() -> None:
    table = torch.arange(40, dtype=torch.int32).view(4, 10)
    rows, starts, ends = torch.tensor([2, 0]), torch.tensor([3, 5]), torch.tensor([5, 8])
    out = torch.full((6,), -1, dtype=torch.int64)
    slots.read_slots(table, rows, starts, ends, out)
    assert out.tolist() == [23, 24, 5, 6, 7, -1]
    assert slots.read_uniform_slots(table, rows, starts, 2).tolist() == [23, 24, 5, 6]
    slots.write_slots(table, rows, starts, ends, torch.tensor([91, 92, 93, 94, 95]))
    assert table[2, 3:5].tolist() == [91, 92]
    assert table[0, 5:8].tolist() == [93, 94, 95]
    assert (table >= 90).sum() == 5
    front = torch.zeros(6, dtype=torch.int64)
    slots.pack_front(torch.tensor([1, 3]), torch.tensor([[1, 2, 3], [4, 5, 6]]), front)
    assert front.tolist() == [1, 4, 5, 6, 0, 0]
    accepted = torch.zeros(4, dtype=torch.int64)
    slots.pack_accepted(torch.tensor([[0, 2], [3, -1]]), torch.tensor([10, 11, 12, 13]), accepted)
    assert accepted.tolist() == [10, 12, 13, 0]
