"""The device in SGLang's diffusion runtime."""
