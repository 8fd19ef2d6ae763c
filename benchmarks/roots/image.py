"""Root file systems of Linux distributions, made by debootstrap, with packages in layers above."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from roots.view import NETWORK, View, run

USER = "someone"
USER_ID = 1000
"""User id of the ordinary user of each machine."""

# Packages that the README asks for, without bubblewrap, and those that a clone needs.
_PACKAGES = ("python3-venv", "python3-dev", "g++", "make", "git", "ca-certificates")


class ImageError(RuntimeError):
    """A root file system cannot be made; the message gives the reason in one line."""


@dataclass(frozen=True)
class Image:
    """A release of a Linux distribution.

    Attributes:
        title: Name in tables, such as `Debian 12`.
        archive: Key in `MIRRORS` of the archive that has the release.
        script: Script that debootstrap uses if it does not know the release.
        components: Components of the archive that have the packages.
    """

    title: str
    archive: str
    script: str
    components: str = "main"


IMAGES: Mapping[str, Image] = {
    "bookworm": Image("Debian 12", "debian", "sid"),
    "trixie": Image("Debian 13", "debian", "sid"),
    "jammy": Image("Ubuntu 22.04", "ubuntu", "gutsy", "main,universe"),
    "noble": Image("Ubuntu 24.04", "ubuntu", "gutsy", "main,universe"),
}
MIRRORS: Mapping[str, str] = {
    "debian": "http://deb.debian.org/debian",
    "ubuntu": "http://archive.ubuntu.com/ubuntu",
}


class Images:
    """Root file systems that are kept in one folder.

    Args:
        folder: Folder of the root file systems.
        mirrors: Address of each archive.
    """

    def __init__(self, folder: Path, mirrors: Mapping[str, str]) -> None:
        self._folder = folder
        self._mirrors = mirrors

    def layers(self, release: str, packages: Sequence[str]) -> tuple[Path, ...]:
        """Return the overlay layers of a release with packages, uppermost first.

        Layers that are missing are made.

        Raises:
            ImageError: A layer cannot be made.
        """
        found = [self._base(release)]
        found.insert(0, self._layer(release, "readme", _PACKAGES, found))
        for package in packages:
            found.insert(0, self._layer(release, package, (package,), found))
        return tuple(found)

    def _base(self, release: str) -> Path:
        image, folder = IMAGES[release], self._folder / "base" / release
        if folder.exists():
            return folder
        unfinished = folder.with_name(f"{release}.tmp")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        keyring = Path(f"/usr/share/keyrings/{image.archive}-archive-keyring.gpg")
        if not keyring.exists():
            raise ImageError(
                f"{keyring} is not here, by which debootstrap trusts the archive's packages"
            )
        script = Path("/usr/share/debootstrap/scripts") / release
        command = [
            *("debootstrap", "--variant=minbase", f"--keyring={keyring}"),
            *(f"--components={image.components}", release, str(unfinished)),
            *(self._mirrors[image.archive], *([] if script.exists() else [image.script])),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise ImageError("debootstrap is missing; run: apt-get install debootstrap") from None
        if done.returncode:
            said = [line for line in done.stdout.splitlines() if line.startswith("E: ")]
            raise ImageError(f"debootstrap: {(said or ['E: no message'])[-1][len('E: ') :]}")
        unfinished.rename(folder)
        return folder

    def _layer(
        self, release: str, name: str, packages: Sequence[str], below: Sequence[Path]
    ) -> Path:
        folder = self._folder / "layers" / f"{release}-{name}"
        if folder.exists():
            return folder
        unfinished = folder.with_name(f"{folder.name}.tmp")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        script = (
            "set -e; export DEBIAN_FRONTEND=noninteractive; apt-get update -q; "
            f"apt-get install -q -y --no-install-recommends {' '.join(packages)}; "
            f"id {USER} >/dev/null 2>&1 || useradd --create-home --uid {USER_ID} {USER}; "
            "apt-get clean"
        )
        log = unfinished.with_suffix(".log")
        view = View(
            tuple(below),
            unfinished,
            ("/bin/sh", "-c", script),
            copied=NETWORK,
            is_privileged=True,
        )
        if run(view, log, limit_s=1800).status:
            lines = [line for line in log.read_text().splitlines() if line.startswith("E: ")]
            raise ImageError(f"apt-get install {' '.join(packages)}: {(lines or ['failed'])[0]}")
        unfinished.rename(folder)
        return folder
