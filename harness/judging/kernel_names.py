"""Whose a kernel is, by its name: a library's, torch's own, or one that the submission defines."""

from __future__ import annotations

import re

# Names that nobody gives a kernel by chance: as cuBLAS, cuDNN, CUTLASS, cuFFT and Triton's
# generator give them.
_UNMISTAKABLE = re.compile(
    r"cublas|cudnn|cutlass|nvjet|xmma|\bcask|cusparse|cusolver|triton_"
    r"|(volta|turing|ampere|ada|hopper|blackwell|maxwell|pascal|sm\d+)_\w*(gemm|gemv|conv)"
    r"|\bgemv(2T|2N|NSP|x)_?|\bgemmSN_|\bgemmk1_|\bsplitKreduce|implicit_convolve_|\b[df]grad2d_"
    r"|\bnch(w|wTo\w+)Kernel|\bnhwcTo\w+Kernel|(regular|vector|multi_bluestein)_fft",
    re.IGNORECASE,
)
# Names that are a library's unless the submission has such a kernel itself.
_LIKELY = re.compile(r"gemm|gemv|matmul|convol|[wdf]grad|winograd|fft|dot_kernel", re.IGNORECASE)

# What torch keeps in a nameless namespace is made for a type of at::native.
_OF_TORCH = re.compile(r"(void )?(at|at_cuda_detail|c10|cub|thrust)::|.*\bat::native::")
# Of torch's kernels, those that move numbers, make them up, add two, or only wait.
_MOVING = re.compile(
    r"copy|fill|cat|index|gather|scatter|arange|linspace|pad|flip|roll|where|transpose|triu|tril"
    r"|masked|compare|bitwise|distribution|random|FunctorOnSelf_add|CUDAFunctor_add|sort|scan|cub"
    r"|spin_kernel",
    re.IGNORECASE,
)
_ENGINE = re.compile(r"Mem(cpy|set) ")


def is_of_torch(name: str) -> bool:
    """Whether a kernel is compiled into torch."""
    return bool(_OF_TORCH.match(name))


def forms_products(name: str) -> bool:
    """Whether one of torch's kernels may form or sum products; one that is not known does."""
    return not _MOVING.search(name)


def is_by_copy_engine(name: str) -> bool:
    """Whether it is no kernel, but a copy or a fill."""
    return bool(_ENGINE.match(name))


def is_surely_library(name: str) -> bool:
    """Whether only a library has kernels of that name."""
    return bool(_UNMISTAKABLE.search(name))


def may_be_library(name: str) -> bool:
    """Whether it is a library's, if the submission has none of that name."""
    return is_surely_library(name) or bool(_LIKELY.search(name))


def identifier(name: str) -> str:
    """What a kernel is called in its source.

    >>> identifier("void (anonymous namespace)::tiles<(anonymous namespace)::Plan<8> >(float*)")
    'tiles'
    >>> identifier("gather(float const*, float*)")
    'gather'
    """
    head = re.split(r"[<(]", name.replace("(anonymous namespace)::", ""), maxsplit=1)[0]
    return re.split(r"::| ", head.strip())[-1]


def is_defined_in(name: str, library: bytes) -> bool:
    """Whether a shared object has a kernel of that name, or the source of one.

    Names stand there mangled, with their length in front, or as they are.
    """
    plain = identifier(name).encode()
    mangled = str(len(plain)).encode() + plain
    return bool(plain) and (
        mangled in library or re.search(rb"\b" + re.escape(plain) + rb"\b", library) is not None
    )
