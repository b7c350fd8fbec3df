"""SGLang's features, each tried on the platform in a running SGLang: one file per family, one record per feature."""
