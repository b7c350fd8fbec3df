"""SGLang's server arguments: the platform's defaults and limits, checked before anything is loaded."""
