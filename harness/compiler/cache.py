"""A store of finished builds, addressed by the digest of their inputs.

Each key has one folder, which is complete or absent. A build writes to a temporary folder, which is
renamed when the build is complete. A killed build therefore leaves only a temporary folder, which a
later build removes. Locks use flock(2), so they end with the process that holds them.
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
    """The files that a function passed to `Cache.get_or_build` has made.

    Attributes:
        library: The file that the build makes, inside the folder that the build was given.
        dependencies: Files that the build read and that the key does not cover. A change to one
            makes the stored build invalid.
        notes: Texts to store with the build, for later users of the entry.
    """

    library: Path
    dependencies: tuple[Path, ...] = ()
    notes: dict[str, str] | None = None


@dataclass(frozen=True)
class Entry:
    """A finished build in the cache.

    Attributes:
        library: The file that was built.
        notes: The texts that the build function stored in `Product.notes`.
        seconds: Duration of the build in seconds, measured when it was made.
        reused: True if the build was already in the cache.
    """

    library: Path
    notes: dict[str, str]
    seconds: float
    reused: bool


def default_root() -> Path:
    """Return the default folder of the cache, below `$XDG_CACHE_HOME` or else ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "cuda-submission-harness"


def digest(parts: Iterable[str]) -> str:
    """Return one SHA-256 over several texts, in hexadecimal.

    The length of each text is hashed too, so that `("ab", "c")` and `("a", "bc")` differ.
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
    """A cache of finished builds in one folder, shared by threads and processes."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def get_or_build(self, key: str, build: Callable[[Path], Product]) -> Entry:
        """Return the entry of `key`; if it is missing, call `build(folder)` first.

        If several callers, in one or more processes, need an entry at the same time, one of them
        builds and the others wait.

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
        """Store a finished build from another machine, unless this cache has a valid one.

        If a dependency differs on this machine, the entry is invalid, and `get_or_build` builds it
        again.

        Args:
            key: The key of the build.
            files: Contents of the files in the build's folder, by name.

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
        """Add the cache's path to an OSError without a file name, such as that of a full disk."""
        try:
            yield
        except OSError as error:
            if error.errno and error.filename is None:
                error.filename = str(self.root)
            raise

    @contextmanager
    def _work(self, key: str) -> Iterator[Path]:
        """Yield a temporary folder in which to make the entry of `key`; remove it afterwards."""
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
        """Remove temporary folders of killed builds: all of `key`, and others older than a day."""
        for folder in self.root.glob("*.tmp"):
            with contextlib.suppress(FileNotFoundError):
                is_old = time.time() - folder.stat().st_mtime > STALE_SECONDS
                # A newer folder of another key may belong to a running build.
                if is_old or folder.name.startswith(f"{key}."):
                    remove(folder)


def remove(path: Path) -> None:
    """Remove a folder with its contents, or the file or link at a path."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
