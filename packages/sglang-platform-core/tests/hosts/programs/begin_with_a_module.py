"""A process that begins with the import of a module of SGLang, as those of uvicorn do; nobody loads plugins."""

import importlib
import sys

importlib.import_module(sys.argv[1])
