"""Whose parts serve each feature of SGLang on a platform that keeps an identity SGLang knows (CUDA, ROCm)."""
