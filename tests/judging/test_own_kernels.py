"""Whose the kernels are that ran on a GPU, by names that were recorded on one."""

from __future__ import annotations

import json

import pytest

from harness.gpu.recording import Launched
from harness.judging.kernel_names import forms_products, identifier, is_by_copy_engine, is_of_torch
from harness.judging.own_kernels import judge_launched
from harness.problems.families.conv_transpose1d.need import need_of
from harness.problems.families.conv_transpose1d.sizes import Convolution
from tests.support import ROOT

# benchmarks/kernel_names.py, on an NVIDIA H200 with torch 2.11 and cuDNN 9.19.
RECORDED = json.loads((ROOT / "tests" / "kernel_names.json").read_text())
HOLD = Launched("hold", 1, 200_000)
BUILT = (b"\0_ZN7_GLOBAL__N_15tilesI4PlanILi8EEEvPKfPf\0gather_gemm\0",)
OWN = Launched("void (anonymous namespace)::tiles<Plan<8> >(float const*, float*)", 1, 900)
PLAIN = Launched("gather_gemm(float const*, float*)", 1, 900)
NEED = need_of(Convolution(in_channels=8, out_channels=8, kernel_size=3, batch=2, length=62))


def messages(*launched: Launched, built: tuple[bytes, ...] = BUILT) -> list[str]:
    """What is found of a call with these kernels, and the one that holds the GPU."""
    judged = judge_launched(NEED, (HOLD, *launched), built)
    return [found.message for found in judged.findings]


def recorded(kind: str) -> list[str]:
    """Names of one kind, without those of the copy engine."""
    return [name for name in RECORDED[kind] if not is_by_copy_engine(name)]


@pytest.mark.parametrize("kernel", [OWN, PLAIN], ids=lambda kernel: identifier(kernel.name))
def test_own_kernel_does_the_work(kernel: Launched) -> None:
    """A kernel that the build has is the submission's, though its name reminds of a library's."""
    judged = judge_launched(NEED, (HOLD, kernel), BUILT)
    assert not judged.findings
    assert judged.share == 1.0


def test_every_library_call_is_told() -> None:
    """Each operator that sums products launches a kernel that is told as a library's."""
    told = {
        what
        for name, what in RECORDED["library"].items()
        if any("a library's kernel ran" in text for text in messages(OWN, Launched(name, 1, 100)))
    }
    assert told == set(RECORDED["library"].values())


@pytest.mark.parametrize("name", recorded("moves"), ids=identifier)
def test_moving_numbers_is_no_work(name: str) -> None:
    """However long it takes, beside a kernel of its own."""
    assert not messages(OWN, Launched(name, 1, 1_000_000))


@pytest.mark.parametrize("name", recorded("forms"), ids=identifier)
def test_products_by_torch_are_told_where_they_take_the_time(name: str) -> None:
    """A small share is preparation, most of the time is the work."""
    assert is_of_torch(name)
    assert forms_products(name)
    assert not messages(OWN, Launched(name, 1, 100))
    assert "torch's kernels took" in messages(OWN, Launched(name, 1, 1_000))[0]


def test_no_kernel_of_its_own() -> None:
    """Kernels that the build does not have are not the submission's, nor are copies."""
    assert messages(OWN, built=(b"other",)) == ["no kernel of its own was launched"]
    assert messages(Launched("Memcpy HtoD (Pageable -> Device)", 1, 100)) == [
        "no kernel of its own was launched"
    ]


def test_library_name_in_own_build_hides_nothing() -> None:
    """Who writes a library's names into the build still has them told."""
    name = "nvjet_sm90_hsh_64x48_64x15_2x4_h_bz_NNT"
    assert "a library's kernel ran" in messages(Launched(name, 1, 9), built=(name.encode(),))[0]


def test_record_without_the_kernel_before_the_call_is_told() -> None:
    """The harness itself launches one: where it is missing, somebody kept it out."""
    judged = judge_launched(NEED, (OWN,), BUILT)
    assert [found.message for found in judged.findings] == ["its kernels could not be recorded"]
