"""A correctness and regression test harness for CUDA kernel submissions."""

import logging

__version__ = "0.1.0"

# A torch that was built for CUDA says so at the import of torch.utils.cpp_extension, where the
# simulator is what is wanted.
logging.getLogger("torch.utils.cpp_extension").addFilter(
    lambda record: not record.getMessage().startswith("No CUDA runtime is found")
)
