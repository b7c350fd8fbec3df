"""A program that builds a `ModelConfig` before anything else, and nobody loads plugins."""

import sys

from sglang.srt.configs.model_config import ModelConfig

assert ModelConfig(model_path=sys.argv[1]).hidden_size == 64
