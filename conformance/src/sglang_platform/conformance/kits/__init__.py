"""SGLang's own tests, as they are in its wheel, run on the platform."""
