"""SGLang's own test kits, run unmodified with the platform's device in place of theirs."""
