"""The device in SGLang's processes: missing modules, device answers, streams, initialisation."""
