"""The demo model: a Llama of about a million parameters that answers in sentences.

`tools/demo_model/train.py` of the repository trains it on text of the project's own. Weights are bfloat16.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["FOLDER"]

FOLDER = Path(__file__).parent / "checkpoint"
