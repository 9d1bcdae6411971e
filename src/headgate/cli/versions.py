"""Versions of headgate and of what it runs on. Starts no Spark."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib import metadata

import headgate


def versions() -> dict[str, str]:
    """The versions by name; a missing program is reported as missing."""
    return {
        "headgate": headgate.__version__,
        "headgate-lab": distribution(
            "headgate-lab", "pip install headgate-lab (from a checkout: its folder lab)"
        ),
        "python": platform.python_version(),
        "spark": spark(),
        "java": java(),
    }


def distribution(name: str, remedy: str) -> str:
    """The version of an installed distribution, without importing it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return f"missing ({remedy})"


def spark() -> str:
    """The version of pyspark."""
    return distribution("pyspark", "pip install 'headgate[spark]'")


def java() -> str:
    """The version of the Java that Spark would use."""
    home = os.environ.get("JAVA_HOME")
    path = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not path:
        return "missing (Spark needs 17 or newer)"
    try:
        output = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return f"does not run ({path})"
    match = re.search(r'version "([^"]+)"', output)
    return match.group(1) if match else f"unknown ({path})"
