"""What is called in place of a target: one generated frame around the hooks and the original."""
