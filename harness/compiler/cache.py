"""A content-addressed store of finished builds.

One folder for each key, complete or not there at all: a build happens in a folder of its own and is
renamed into place, so that a build killed half-way leaves only rubbish that the next one sweeps up.
Locks are flock's, which die with their process.
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
    """What a build leaves behind, as told to the cache."""

    library: Path
    """The file that the build is for, inside the folder that the build was given."""
    dependencies: tuple[Path, ...] = ()
    """Files that were read and that the key does not cover; a change to one makes a new build."""
    notes: dict[str, str] | None = None
    """Whatever the builder wants to find again."""


@dataclass(frozen=True)
class Entry:
    """A finished build."""

    library: Path
    notes: dict[str, str]
    seconds: float
    """How long the build took when it was made."""
    reused: bool


def default_root() -> Path:
    """The user's cache folder, by the XDG convention."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "cuda-submission-harness"


def digest(parts: Iterable[str]) -> str:
    """One SHA-256 over texts, so that moving a character from one to the next changes it."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode()
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Cache:
    """Finished builds under one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def get_or_build(self, key: str, build: Callable[[Path], Product]) -> Entry:
        """The entry of `key`, built by `build(folder)` where it is not there yet.

        Of several callers at once, in one process or many, one builds and the others wait for it.

        Raises:
            OSError: it cannot be stored, or the build's folder not be written to.
            Exception: whatever `build` raises; nothing is stored then.
        """
        found = self._read(key, reused=True)
        if found:
            return found
        with self._named(), self._lock(key):
            found = self._read(key, reused=True)
            if found:
                return found
            return self._build(key, build)

    def adopt(self, key: str, files: Mapping[str, bytes]) -> None:
        """Take over a finished build that another machine made; nothing where it is here already.

        What it depends on may be other than there: then it is as none, and is made here.

        Args:
            key: Its key.
            files: What its folder holds, by name.

        Raises:
            OSError: it cannot be stored.
        """
        if self._read(key, reused=True):
            return
        with self._named(), self._lock(key), self._work(key) as work:
            for name, content in files.items():
                (work / name).write_bytes(content)
            self._store(key, work)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """See that an error says where: a write that a full disk refuses does not."""
        try:
            yield
        except OSError as error:
            if error.errno and error.filename is None:
                error.filename = str(self.root)
            raise

    @contextmanager
    def _work(self, key: str) -> Iterator[Path]:
        """A folder to make an entry in, which is gone in the end."""
        self._sweep(key)
        work = self.root / f"{key}.{os.getpid()}.tmp"
        work.mkdir(parents=True)
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _store(self, key: str, work: Path) -> None:
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
                f"{self.root / key}: the build vanished as it was stored; is the disk full?"
            )
        return entry

    def _read(self, key: str, *, reused: bool) -> Entry | None:
        """The entry of `key`, or None where it is missing, damaged or out of date."""
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
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _sweep(self, key: str) -> None:
        """Remove what killed builds left: of the key, whose lock is held, and what is old."""
        for folder in self.root.glob("*.tmp"):
            with contextlib.suppress(FileNotFoundError):
                is_old = time.time() - folder.stat().st_mtime > STALE_SECONDS
                # A newer one of another key may be of a build that goes on.
                if is_old or folder.name.startswith(f"{key}."):
                    remove(folder)


def remove(path: Path) -> None:
    """Remove a folder, or whatever else somebody put in its place."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
