"""The diffusion runtime, `sglang.multimodal_gen`."""
