"""The invented host's server arguments."""

from dataclasses import dataclass


@dataclass
class ServerArgs:
    model_path: str
    enable_lora: bool = False
    lora_backend: str = "plain"
    attention_backend: str = "plain"
    speculative_algorithm: str | None = None
