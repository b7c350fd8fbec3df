"""The call of a hooked target: one generated frame around the hooks and the original."""
