"""Reading Python source without importing it."""
