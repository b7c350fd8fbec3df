"""What to do about a call of a paged allocator that is wrong."""

from __future__ import annotations

__all__ = ["COUNTED", "COUNTS", "GROUPED", "KEPT", "RAISED", "REFUSED"]

KEPT = "keep a copy of what a call is given where it is read later, as in a free group: the caller writes over it then"
COUNTED = "count in available_size() the slots of every page that nobody holds, each once, those that wait to be" \
    " sorted in as well: the host looks for leaks, and admits requests, by it"  # fmt: skip
RAISED = {"free_group_end": KEPT}
GROUPED = (
    "hold frees back from free_group_begin() until free_group_end(): the scheduler still reads what it frees"
)
REFUSED = "count the new pages of the whole batch, however large, before any is taken, and answer None, with nothing" \
    " changed, when they are not free"  # fmt: skip
_TAKES = "take for each request the new pages that its tokens start, ceil(seq_len / page_size) - ceil(prefix_len /" \
    " page_size)"  # fmt: skip
COUNTS = {
    "Allocator": "lend pages 1 to size // page_size: slots that fill no page are not counted, nor page 0",
    "alloc": "lend pages 1 to size // page_size, each once: a page that is lent is not free, and not counted",
    "alloc_extend": _TAKES,
    "alloc_decode": _TAKES,
    "free": "give back the page of every slot that is named, each once, however many there are, in whatever order",
    "free_page_ids": "free_page_ids(ids) gives back the pages of these numbers (slot // page_size), of 32 bits too",
    "free_group_end": "keep every free of an open group, of slots, of page numbers and of segments, and do all of them"
    " at its end; clear() drops them",
    "backup_state": "save the state, and change nothing",
    "restore_state": "save and restore all of the state: free pages, those that wait to be sorted, and the lent ones",
    "clear": "make all pages free in clear(), and drop in it what an open group holds back",
    "resize": "resize() sets size and num_pages and calls clear(), which reads them: keep no other count of pages",
}
"""What to do where a call leaves another number of slots free."""
