"""Where releases of SGLang take CUDA for granted, as a page: `nox -s assumptions`."""
