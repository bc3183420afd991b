"""Find a browser for the page's tests; `python -m tests.browser` tries to install one if there is none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """Return the path of a browser: the system's, or the one that playwright installed."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def install() -> None:
    """Install Debian's package, where that is allowed, otherwise playwright's build."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": False, "timeout": 600}
    if shutil.which("apt-get") and os.geteuid() == 0:
        subprocess.run(["apt-get", "update"], **quiet)  # type: ignore[call-overload]
        subprocess.run(["apt-get", "install", "-y", "chromium"], **quiet)  # type: ignore[call-overload]
    if find() is None:
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], **quiet)  # type: ignore[call-overload]


if __name__ == "__main__":
    if find() is None:
        print("no browser found; trying to install chromium", flush=True)
        install()
    if find() is None:
        print("NO BROWSER could be found or installed: the page's tests are skipped. Install chromium to run them.")
