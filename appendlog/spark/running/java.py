"""Checks for a Java that Spark runs on, before Spark fails with an unclear message."""

import os
import re
import shutil
import subprocess
import sys
from typing import Final

from appendlog.spark.errors import JavaError

JAVA_VERSION_MIN: Final = 17
_ANSWER_SECONDS_MAX: Final = 30
_VERSION: Final = re.compile(rb'version "(?:1\.)?(\d+)')


def check_java() -> int:
    """Return the major version of the Java that Spark will use.

    Raises:
        JavaError: Java is missing or too old; the message says what to install.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise JavaError(
            f"Spark needs Java {JAVA_VERSION_MIN} or newer and there is none {where}: "
            f"{_install_command()}"
        )
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own java, no shell
            [java, "-version"], capture_output=True, check=False, timeout=_ANSWER_SECONDS_MAX
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(f"{java} -version does not answer: {error}") from error
    found = _VERSION.search(answer.stderr + answer.stdout)
    if found is None:
        raise JavaError(f"{java} -version does not name a version: {_install_command()}")
    version = int(found[1])
    if version < JAVA_VERSION_MIN:
        raise JavaError(
            f"Spark needs Java {JAVA_VERSION_MIN} or newer, {java} is version {version}: "
            f"{_install_command()}, and set JAVA_HOME to it"
        )
    return version


def _install_command() -> str:
    if sys.platform == "darwin":
        return "brew install openjdk@17"
    commands = {
        "apt-get": "sudo apt-get install openjdk-17-jre-headless",
        "dnf": "sudo dnf install java-17-openjdk-headless",
        "pacman": "sudo pacman -S jre17-openjdk-headless",
        "zypper": "sudo zypper install java-17-openjdk-headless",
        "apk": "sudo apk add openjdk17-jre-headless",
    }
    for program, command in commands.items():
        if shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin"):
            return command
    return "install OpenJDK 17"
