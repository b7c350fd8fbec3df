"""All patches, in order."""

from .memory_report import patch_memory_report
from .quantization import patch_quantization
from .scheduler import patch_scheduler
from .workers import patch_workers


def apply_basalt_patches():
    for apply in (patch_memory_report, patch_quantization, patch_scheduler, patch_workers):
        apply()
