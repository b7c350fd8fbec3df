"""For the test environment only: lets torchvision's Python part import beside a CPU-only torch.

SGLang imports torchvision, whose wheel on the package index is built for CUDA: its C++ part does not load here, and
registering shapes for two operators that were never defined fails. This defines the two schemas just before
torchvision is imported. A `.pth` file in the environment imports this module at start-up.
"""

import importlib.abc
import sys


class _BeforeTorchvision(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torchvision":
            sys.meta_path.remove(self)
            import torch

            self.library = torch.library.Library("torchvision", "DEF")
            for operator in ("nms", "qnms"):
                self.library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _KEPT.append(self)
        return


_KEPT = []
sys.meta_path.insert(0, _BeforeTorchvision())
