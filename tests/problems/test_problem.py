"""Tests of loading a reference file: its arguments, inputs, family and errors."""

import gc
import sys
from pathlib import Path

import pytest
import torch

from harness.problems.configuration import InputSpec
from harness.problems.missing_packages import why_missing
from harness.problems.problem import ProblemError, load
from tests.support import REFERENCE

TEMPLATE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, bias=False):
        super().__init__()
        self.layer = nn.ConvTranspose1d(in_channels, out_channels, kernel_size, stride, bias=bias)
        {extra}

    def forward(self, x):
        return {forward}

def get_inputs():
    return {inputs}

def get_init_inputs():
    return {arguments}
"""


def write(
    folder: Path,
    *,
    extra: str = "",
    forward: str = "self.layer(x)",
    inputs: str = "[torch.rand(2, 4, 5)]",
    arguments: str = "[4, 6, 3]",
) -> Path:
    """Write a reference file made from `TEMPLATE`, and return its path."""
    path = folder / "reference.py"
    path.write_text(
        TEMPLATE.format(extra=extra, forward=forward, inputs=inputs, arguments=arguments)
    )
    return path


@pytest.mark.parametrize(
    ("name", "arguments", "shape"),
    [
        (
            "conv_transpose1d",
            {
                "in_channels": 128,
                "out_channels": 128,
                "kernel_size": 3,
                "stride": 1,
                "padding": 0,
                "output_padding": 0,
                "groups": 1,
                "bias": False,
            },
            (64, 128, 65536),
        ),
        (
            "conv_transpose1d_dilated",
            {
                "in_channels": 32,
                "out_channels": 64,
                "kernel_size": 5,
                "stride": 1,
                "padding": 0,
                "dilation": 3,
                "bias": False,
            },
            (32, 32, 131072),
        ),
        (
            "conv_transpose1d_strided_dilated",
            {
                "in_channels": 32,
                "out_channels": 64,
                "kernel_size": 3,
                "stride": 2,
                "padding": 1,
                "dilation": 2,
                "bias": False,
            },
            (16, 32, 131072),
        ),
    ],
)
def test_our_own_references(
    name: str, arguments: dict[str, object], shape: tuple[int, ...]
) -> None:
    """Each reference in the folder `reference` loads with the right name, arguments and family.

    Its only input has the right shape and is float32.
    """
    problem = load(REFERENCE / f"{name}.py")
    assert problem.name == name
    assert problem.arguments == arguments
    assert problem.inputs == (InputSpec(shape, "float32"),)
    assert problem.family.name == "conv_transpose1d"


@pytest.mark.parametrize(
    "arguments",
    [
        "[4, 6, 3, 2]",
        "(4, 6, 3, 2)",
        "{'kernel_size': 3, 'in_channels': 4, 'out_channels': 6, 'stride': 2}",
        "[[4, 6], {'stride': 2, 'kernel_size': 3}]",
    ],
)
def test_binds_every_form_of_init_inputs(tmp_path: Path, arguments: str) -> None:
    """`get_init_inputs` may return a list, a tuple, a dict, or KernelBench's pair of list and dict.

    All forms bind to the same parameter names.
    """
    assert load(write(tmp_path, arguments=arguments)).arguments == {
        "in_channels": 4,
        "out_channels": 6,
        "kernel_size": 3,
        "stride": 2,
        "bias": False,
    }


def test_defaults_are_those_of_the_signature(tmp_path: Path) -> None:
    """`Problem.defaults` has only the parameters of `Model` that have defaults."""
    assert load(write(tmp_path)).defaults == {"stride": 1, "bias": False}


@pytest.mark.parametrize(
    ("extra", "forward"),
    [
        ("", "self.layer(x).relu()"),
        ("", "self.layer(x) + 1.0"),
        ("self.norm = nn.BatchNorm1d(6)", "self.norm(self.layer(x))"),
        ("self.layer = nn.Conv1d(4, 6, 3)", "self.layer(x)"),
        ("self.scale = nn.Parameter(torch.ones(1))", "self.layer(x) * self.scale"),
    ],
)
def test_more_than_a_convolution_is_not_one(tmp_path: Path, extra: str, forward: str) -> None:
    """A model that does more than a transposed convolution is not of the family `conv_transpose1d`.

    The error bound of that family, for a plain sum, would be wrong for the model.
    """
    assert load(write(tmp_path, extra=extra, forward=forward)).family.name == "any_reference"


def test_a_convolution_with_padding_and_bias_is_one(tmp_path: Path) -> None:
    """A transposed convolution with stride and bias is of the family `conv_transpose1d`."""
    problem = load(write(tmp_path, arguments="[4, 6, 3, 2, True]"))
    assert problem.family.name == "conv_transpose1d"


def test_loading_leaves_the_random_state_alone(tmp_path: Path) -> None:
    """Loading a reference does not change the state of torch's random generator."""
    path = write(tmp_path)
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    load(path)
    assert torch.equal(torch.rand(3), expected)


def test_two_files_of_one_name_do_not_meet(tmp_path: Path) -> None:
    """Two references in different folders with the same file name have models of their own."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    one = load(write(tmp_path / "a", arguments="[4, 6, 3]"))
    other = load(write(tmp_path / "b", arguments="[4, 6, 5]"))
    assert one.model is not other.model
    assert (one.arguments["kernel_size"], other.arguments["kernel_size"]) == (3, 5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"inputs": "[torch.rand(2, 4, 5).numpy()]"}, ["get_inputs()", "meta"]),
        ({"inputs": "['three', torch.rand(2)]"}, ["str", "tensors and numbers"]),
        ({"inputs": "[3]"}, ["no tensor"]),
        ({"inputs": "[]"}, ["get_inputs() returns 0 inputs", "'x'"]),
        ({"arguments": "[4]"}, ["get_init_inputs()", "out_channels"]),
        ({"arguments": "[4, 6, 3, 1, False, 9]"}, ["too many"]),
        ({"arguments": "7"}, ["int", "list or a dict"]),
        ({"arguments": "[4, 6, 3, 0]"}, ["Model fails", "stride"]),
        ({"arguments": "[4, 6, 'three']"}, ["Model cannot be built"]),
        ({"arguments": "[4, 6, {3}]"}, ["JSON"]),
        (
            {"extra": "self.last = nn.Linear(99, 2)", "forward": "self.last(self.layer(x))"},
            ["forward raises", "its own inputs", "99"],
        ),
    ],
)
def test_says_what_is_wrong(tmp_path: Path, changes: dict[str, str], words: list[str]) -> None:
    """Each mistake in a reference raises a one-line ProblemError.

    The message has the path of the file, the function at fault and the reason.
    """
    path = write(tmp_path, **changes)
    with pytest.raises(ProblemError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("x = ", "SyntaxError"),
        ("raise OSError('two\\nlines')", "OSError: two"),
        ("class Model: pass", "get_inputs"),
        (
            "class Model: pass\ndef get_inputs(): pass\ndef get_init_inputs(): pass",
            "not a torch.nn.Module",
        ),
    ],
)
def test_says_why_a_file_is_no_reference(tmp_path: Path, text: str, word: str) -> None:
    """A reference that fails to import, or lacks a function or class, raises a ProblemError.

    The message has the reason.
    """
    path = tmp_path / "reference.py"
    path.write_text(text)
    with pytest.raises(ProblemError, match=word):
        load(path)


@pytest.mark.parametrize(
    "inputs",
    [
        "[torch.rand(2, 4, 5).cuda()]",
        "[torch.rand(2, 4, 5, device='cuda', pin_memory=True)]",
        "[torch.rand(2, 4, 5, device=torch.device('cuda', 1)).double().to('cuda', torch.float32)]",
        "[torch.rand(2, 4, 5).to('cuda:0').to(device='cuda', non_blocking=True)]",
    ],
)
def test_inputs_may_name_a_device(tmp_path: Path, inputs: str) -> None:
    """`get_inputs` may create tensors on any device, even on one that this machine lacks.

    The inputs are the same as without a device.
    """
    problem = load(write(tmp_path, inputs=inputs))
    assert problem.inputs == (InputSpec((2, 4, 5), "float32"),)
    (made,) = problem.make_inputs(seed=0)
    (expected,) = load(write(tmp_path)).make_inputs(seed=0)
    assert torch.equal(made, expected)


def test_missing_file(tmp_path: Path) -> None:
    """A reference's path that does not exist raises a ProblemError."""
    with pytest.raises(ProblemError, match="cannot be read"):
        load(tmp_path / "gone.py")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1"])
def test_reference_that_is_not_utf_8_says_so(tmp_path: Path, encoding: str) -> None:
    """A reference that is not UTF-8 raises a ProblemError that says so.

    Python's own message, such as one about null bytes, would not help.
    """
    path = tmp_path / "conv.py"
    path.write_bytes("x = 'é'\n".encode(encoding))
    with pytest.raises(ProblemError, match="is not UTF-8; save it"):
        load(path)


def test_parameters_without_names_are_refused(tmp_path: Path) -> None:
    """A reference whose `Model` takes *args as its only parameter is refused.

    The reason is that arguments are bound by name.
    """
    path = tmp_path / "reference.py"
    path.write_text(
        "from torch import nn\n"
        "class Model(nn.Module):\n def __init__(self, *sizes): super().__init__()\n"
        "def get_inputs(): return []\ndef get_init_inputs(): return [1, 2]\n"
    )
    with pytest.raises(ProblemError, match=r"\*sizes"):
        load(path)


def test_parameters_that_get_nothing_are_no_arguments(tmp_path: Path) -> None:
    """*args and **kwargs of `Model`, and defaults that JSON cannot hold, are not arguments."""
    path = tmp_path / "reference.py"
    path.write_text(
        "import torch\nfrom torch import nn\n"
        "class Model(nn.Module):\n"
        " def __init__(self, size, *more, scale=2, norm=nn.LayerNorm, **rest): super().__init__()\n"
        " def forward(self, x): return x + 1\n"
        "def get_inputs(): return [torch.rand(3)]\ndef get_init_inputs(): return [1]\n"
    )
    assert load(path).arguments == {"size": 1, "scale": 2}


def test_configurations_that_are_gone_leave_no_module(tmp_path: Path) -> None:
    """The modules of a reference's configurations leave `sys.modules` when nothing uses them."""
    path = write(tmp_path)
    path.write_text(path.read_text().replace("[4, 6, 3]", "[channels, 6, 3]") + "\nchannels = 4\n")
    problem = load(path)
    before = set(sys.modules)
    for channels in range(5, 400):
        problem.at({"channels": channels})
    gc.collect()
    assert len(sys.modules.keys() - before) < 300


@pytest.mark.parametrize(
    ("module", "package"),
    [("absent_layers", "absent-layers"), ("absent_layers.attention", "absent-layers")],
)
@pytest.mark.parametrize("place", ["extra", "forward", "inputs", "arguments"])
def test_missing_package_is_named_with_its_command(
    tmp_path: Path, place: str, module: str, package: str
) -> None:
    """A reference that needs a missing package raises an error with the `pip install` command.

    The import may be anywhere in the file. The message is one line.
    """
    path = write(tmp_path, **{place: f"__import__({module!r})"})
    with pytest.raises(ProblemError) as caught:
        load(path)
    assert str(caught.value) == (
        f"{path}: needs the package {package}, which is not installed; run: pip install {package}"
    )


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("import absent_layers", "needs the package absent-layers, which is not installed; run: "),
        (
            "try:\n    import absent_layers\nexcept ImportError:\n    raise RuntimeError('no')",
            "needs the package absent-layers, which is not installed; run: ",
        ),
        ("import sklearn_of_mine", "imports sklearn_of_mine, which lies beside it; copy what "),
        ("import torch.absent", "fails when imported (ModuleNotFoundError: No module named "),
        ("raise ModuleNotFoundError('gone')", "fails when imported (ModuleNotFoundError: gone); "),
    ],
)
def test_import_that_fails_says_why(tmp_path: Path, first: str, words: str) -> None:
    """The error of a failed import says what is missing.

    The missing module may be a package, a part of an installed package, or a file beside the
    reference.
    """
    path = write(tmp_path)
    (tmp_path / "sklearn_of_mine.py").touch()
    path.write_text(f"{first}\n{path.read_text()}")
    with pytest.raises(ProblemError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {words}")


def test_package_has_the_name_by_which_pip_knows_it() -> None:
    """The `pip install` command for the missing module cv2 names the package opencv-python."""
    error = ModuleNotFoundError("No module named 'cv2'", name="cv2")
    assert "run: pip install opencv-python" in str(why_missing(error, Path("/nowhere")))
