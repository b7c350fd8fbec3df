"""KV pools on SGLang's pool classes, and their copies in host memory."""
