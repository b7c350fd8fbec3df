"""ok1, ok5, ok6 in one platform."""
from base import WithParts
import ok1_paged_one_storage as a, ok4_strided_results as b, ok5_high_pages_first as c, ok6_slab_and_late_graphs as d


class Platform(WithParts):
    supported_page_sizes = (1, 8, 48, 96)
    _mha, _allocator, _host_memory_cls, _saver, _runner = a.Pool, c.Allocator, d.Memory, d.Saver, d.Runner
