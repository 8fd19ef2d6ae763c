"""Messages between the harness's processes, digests of tensors, and kinds of faults.

The processes that send and handle the messages are in worker/ and device/. This package neither
runs nor judges submissions.
"""
