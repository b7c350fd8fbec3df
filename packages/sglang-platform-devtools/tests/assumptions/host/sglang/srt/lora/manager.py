"""What is reached from the arguments for adapters."""

import torch


def register_lora_backend(name):
    return lambda cls: cls


class Manager:
    def __init__(self):
        self.stream = torch.cuda.Stream()


@register_lora_backend("fast")
class FastBackend:
    def prepare(self):
        return torch.cuda.Event()
