"""Parts for vendors without kernels of their own: for any device that torch reaches, for any that Triton compiles
for."""
