"""A store of finished builds, addressed by the digest of their inputs.

Each key has one folder, which is complete or absent. A build works in a folder of its own and is
renamed into place. A killed build therefore leaves only a temporary folder, which a later build
removes. Locks use flock(2), so they end with their process.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MANIFEST = "manifest.json"
STALE_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Product:
    """The result of a build function.

    Attributes:
        library: The file that the build makes, inside the folder that the build was given.
        dependencies: Files that the build read and that the key does not cover. A change to one
            makes the stored build invalid.
        notes: Information that the builder wants to find in the entry.
    """

    library: Path
    dependencies: tuple[Path, ...] = ()
    notes: dict[str, str] | None = None


@dataclass(frozen=True)
class Entry:
    """A finished build in the cache.

    Attributes:
        library: The file that was built.
        notes: The builder's notes.
        seconds: Duration of the build when it was made.
        reused: True if the build was found in the cache.
    """

    library: Path
    notes: dict[str, str]
    seconds: float
    reused: bool


def default_root() -> Path:
    """Return the harness's folder in the user's cache folder, by the XDG convention."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "cuda-submission-harness"


def digest(parts: Iterable[str]) -> str:
    """Return one SHA-256 over several texts, in hexadecimal.

    Each text is preceded by its length, so that moving a character between neighbours changes the
    result.
    """
    state = hashlib.sha256()
    for part in parts:
        data = part.encode()
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Cache:
    """Finished builds in one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def get_or_build(self, key: str, build: Callable[[Path], Product]) -> Entry:
        """Return the entry of `key`; if it is missing, call `build(folder)` first.

        If several callers need an entry at once, in one or more processes, one builds and the
        others wait.

        Raises:
            OSError: The entry cannot be stored, or the build's folder cannot be written to.
            Exception: An exception of `build`; nothing is stored then.
        """
        found = self._read(key, reused=True)
        if found:
            return found
        with self._named(), self._lock(key):
            # Another caller may have built it while this one waited for the lock.
            found = self._read(key, reused=True)
            if found:
                return found
            return self._build(key, build)

    def adopt(self, key: str, files: Mapping[str, bytes]) -> None:
        """Store a finished build that another machine made, unless this cache has it already.

        If a dependency differs here, the entry is invalid, and the next use builds it anew.

        Args:
            key: The key of the build.
            files: Contents of the files in its folder, by name.

        Raises:
            OSError: The build cannot be stored.
        """
        if self._read(key, reused=True):
            return
        with self._named(), self._lock(key), self._work(key) as work:
            for name, content in files.items():
                (work / name).write_bytes(content)
            self._store(key, work)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Add the cache's path to an OSError that has no file name, such as one of a full disk."""
        try:
            yield
        except OSError as error:
            if error.errno and error.filename is None:
                error.filename = str(self.root)
            raise

    @contextmanager
    def _work(self, key: str) -> Iterator[Path]:
        """Yield a folder in which to make an entry, and remove what is left of it afterwards."""
        self._sweep(key)
        work = self.root / f"{key}.{os.getpid()}.tmp"
        work.mkdir(parents=True)
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _store(self, key: str, work: Path) -> None:
        # Renaming a folder is atomic, so that no reader sees a part of an entry.
        remove(self.root / key)
        work.rename(self.root / key)

    def _build(self, key: str, build: Callable[[Path], Product]) -> Entry:
        with self._work(key) as work:
            start = time.monotonic()
            product = build(work)
            manifest = {
                "library": product.library.name,
                "library_sha256": file_digest(product.library),
                "dependencies": {str(p): file_digest(p) for p in product.dependencies},
                "notes": product.notes or {},
                "seconds": time.monotonic() - start,
            }
            (work / MANIFEST).write_text(json.dumps(manifest, indent=1))
            self._store(key, work)
        entry = self._read(key, reused=False)
        if entry is None:
            raise OSError(
                f"{self.root / key}: the build disappeared while it was stored; check "
                "whether the disk is full"
            )
        return entry

    def _read(self, key: str, *, reused: bool) -> Entry | None:
        """Return the entry of `key`, or None if it is missing, damaged or out of date."""
        folder = self.root / key
        try:
            manifest = json.loads((folder / MANIFEST).read_text())
            library = folder / manifest["library"]
            intact = file_digest(library) == manifest["library_sha256"] and all(
                file_digest(Path(path)) == known for path, known in manifest["dependencies"].items()
            )
            if not intact:
                return None
            notes = {str(name): str(note) for name, note in manifest["notes"].items()}
            return Entry(library, notes, float(manifest["seconds"]), reused)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    @contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / f"{key}.lock").open("w") as file:
            # The lock file is never removed: another process could still hold a lock on the removed
            # file, while a third locks a new one.
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _sweep(self, key: str) -> None:
        """Remove temporary folders of killed builds: those of the locked key, and old ones."""
        for folder in self.root.glob("*.tmp"):
            with contextlib.suppress(FileNotFoundError):
                is_old = time.time() - folder.stat().st_mtime > STALE_SECONDS
                # A newer folder of another key may belong to a running build.
                if is_old or folder.name.startswith(f"{key}."):
                    remove(folder)


def remove(path: Path) -> None:
    """Remove a folder, or any file or link at its path."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
