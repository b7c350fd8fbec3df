"""The packages that a release of SGLang needs on a device: its own metadata, without what the device cannot use."""
