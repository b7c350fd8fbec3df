"""sglang-platform core: the stable contract between SGLang and a hardware platform."""
