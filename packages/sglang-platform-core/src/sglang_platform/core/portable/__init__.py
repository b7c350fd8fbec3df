"""Parts that run before a vendor has kernels: on any device torch reaches, on any that Triton compiles for."""
