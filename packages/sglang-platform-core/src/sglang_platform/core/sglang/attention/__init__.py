"""The platform's attention backends in SGLang: names, pools, data-parallel attention."""
