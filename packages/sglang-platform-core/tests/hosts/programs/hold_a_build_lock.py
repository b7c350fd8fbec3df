"""Takes the lock of an extension build as torch's FileBaton does, and holds it until it is killed."""

import os
import sys
import time

os.open(sys.argv[1], os.O_CREAT | os.O_EXCL)
print("held", flush=True)
time.sleep(600)
