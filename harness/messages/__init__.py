"""Messages between the harness's processes, digests of tensors, and kinds of faults.

The processes that send and handle them are in worker/ and device/. Nothing is run or judged here.
"""
