"""Speculative decoding: launch, draft models, SGLang's kernels in plain torch, sampling."""
