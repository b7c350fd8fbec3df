"""SGLang's worker class, replaced by a subclass where the scheduler imports it."""

from sglang.srt.managers import tp_worker


class BasaltWorker(tp_worker.TpModelWorker):
    def get_memory_pool(self):
        requests, allocator = super().get_memory_pool()
        return requests, allocator


def patch_workers():
    tp_worker.TpModelWorker = BasaltWorker
