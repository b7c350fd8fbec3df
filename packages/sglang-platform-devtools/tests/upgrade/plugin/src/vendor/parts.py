"""Every kind of dependency, one per line."""

import os

from sglang.srt.layers.ops import fused, moved
from sglang.srt.mem.pool import PAGE, Allocator, PagedStore, Result, helper, pair, same, split, tally
from sglang.srt.server_args import ServerArgs

from vendor.compat import HostBase

try:
    from sglang.srt.layers.ops import left_out
except ImportError:
    left_out = None

os.environ["SGLANG_OLD"] = "1"
os.environ["SGLANG_FLIPPED"] = "1"
os.environ["SGLANG_SAME"] = "1"
os.environ["SGLANG_FORMER"] = "1"
FLAGS = ["--old-flag", "--page-size"]


class Pool(HostBase):
    def store(self, layer, loc, k, v):
        return same(layer)

    def flush(self):
        return PAGE

    def room(self):
        return self.slots.release_pages + self.slots.free_pages


class Keys(PagedStore):
    def put(self, key):
        return same(key)


def use(pool: HostBase, slots: Allocator, args: ServerArgs):
    size, pages = pool.describe()
    need, free = slots.alloc(4)
    Result("key", 1)
    helper(1, 2)
    fused(1, residual=2)
    moved(1)
    one, two = split(1)
    size, pages = tally(slots)
    need, free = pair(slots)
    if args.quantization == "qoq":
        return args.old_flag
    return args.page_size, size, pages, need, free, one, two
