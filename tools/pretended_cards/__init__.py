"""SGLang's imports and launch decisions on GPUs that this machine does not have."""
