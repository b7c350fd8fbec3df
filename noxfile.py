
import nox
@nox.session(venv_backend="none")
def host(session):
    import os, pathlib
    if not pathlib.Path(".nox/host/bin/python").exists():
        session.run("python3", "-m", "venv", ".nox/host")
    session.run(".nox/host/bin/python", "-m", "pip", "install", "-r", "environments/host.txt")
    session.run(".nox/host/bin/python", "-m", "pip", "install", "--no-deps", "sglang==0.5.23", "torchvision==0.28.0")
