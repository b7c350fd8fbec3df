"""The LLM runtime, `sglang.srt`."""
