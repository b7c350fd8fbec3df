"""Process groups: the platform's communicator and the device of SGLang's groups."""
