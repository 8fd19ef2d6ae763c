"""The store of finished builds, each under a key."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harness.compiler.cache import Cache, Product, digest


def make(folder: Path, content: str = "machine code") -> Product:
    (folder / "library.so").write_text(content)
    return Product(folder / "library.so")


def test_second_request_is_served_from_the_cache(tmp_path: Path) -> None:
    """A second request for the same key returns the stored build and does not build again."""
    cache = Cache(tmp_path)
    first = cache.get_or_build("key", make)

    def fail(_: Path) -> Product:
        raise AssertionError("built again")

    second = cache.get_or_build("key", fail)
    assert (first.reused, second.reused) == (False, True)
    assert second.library.read_text() == "machine code"


def test_failed_build_leaves_nothing(tmp_path: Path) -> None:
    """An exception in a build reaches the caller, and the next build of the same key works."""
    cache = Cache(tmp_path)

    def fail(folder: Path) -> Product:
        (folder / "half").write_text("written")
        raise RuntimeError("no luck")

    with pytest.raises(RuntimeError, match="no luck"):
        cache.get_or_build("key", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["key.lock"]
    assert not cache.get_or_build("key", make).reused


@pytest.mark.parametrize("damage", ["library", "manifest", "gone"])
def test_damaged_entry_is_built_again(tmp_path: Path, damage: str) -> None:
    """An entry with a changed or missing library or manifest is built again."""
    cache = Cache(tmp_path)
    entry = cache.get_or_build("key", make)
    if damage == "library":
        entry.library.write_text("something else")
    elif damage == "manifest":
        (entry.library.parent / "manifest.json").write_text("{")
    else:
        entry.library.unlink()
    again = cache.get_or_build("key", make)
    assert not again.reused
    assert again.library.read_text() == "machine code"


def test_changed_dependency_makes_a_new_build(tmp_path: Path) -> None:
    """A change of a header that a build depends on makes a new build under the same key."""
    header = tmp_path / "header.h"
    header.write_text("1")
    cache = Cache(tmp_path / "cache")

    def build(folder: Path) -> Product:
        product = make(folder, header.read_text())
        return Product(product.library, (header,))

    cache.get_or_build("key", build)
    assert cache.get_or_build("key", build).reused
    header.write_text("2")
    entry = cache.get_or_build("key", build)
    assert not entry.reused
    assert entry.library.read_text() == "2"


def test_of_two_builds_at_once_one_does_the_work(tmp_path: Path) -> None:
    """The second of two concurrent builds of a key waits for the first, and uses the library."""
    started = threading.Event()
    go_on = threading.Event()
    builds = []

    def slow(folder: Path) -> Product:
        builds.append(folder)
        started.set()
        assert go_on.wait(30)
        return make(folder)

    cache = Cache(tmp_path)
    entries = []
    threads = [
        threading.Thread(target=lambda: entries.append(cache.get_or_build("key", slow)))
        for _ in range(2)
    ]
    threads[0].start()
    assert started.wait(30)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert len(builds) == 1
    assert sorted(entry.reused for entry in entries) == [False, True]


def test_killed_build_does_not_hurt_the_next(tmp_path: Path) -> None:
    """A build that is killed by SIGKILL leaves neither a held lock nor a partial entry."""
    script = (
        "import sys, time; from pathlib import Path; from harness.compiler.cache import Cache\n"
        "def build(folder):\n"
        "    (folder / 'library.so').write_text('half')\n"
        "    print('building', flush=True)\n"
        "    time.sleep(600)\n"
        "Cache(Path(sys.argv[1])).get_or_build('key', build)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "building\n"
        os.kill(process.pid, signal.SIGKILL)
    entry = Cache(tmp_path).get_or_build("key", make)
    assert entry.library.read_text() == "machine code"


def test_digest_tells_where_one_part_ends() -> None:
    """The digests of two lists of texts differ, even if the texts join to the same text."""
    assert digest(["ab", "c"]) != digest(["a", "bc"])
