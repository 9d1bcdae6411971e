"""A function of an operator that ends its process when it is called with certain numbers."""

import ctypes
import os
import signal

import pyarrow as pa

from headgate.sql.engine import Function


def dying(numbers):
    """Ends its process if it is called with a certain number."""
    wanted = set(numbers.to_pylist())
    if -1 in wanted:
        os._exit(3)
    if -2 in wanted:
        os.kill(os.getpid(), signal.SIGSEGV)
    if -3 in wanted:
        ctypes.PyDLL(None).sleep(60)  # native code that holds the interpreter
    print("not an answer to anybody")
    return pa.array([True] * len(numbers))


FUNCTIONS = {"dying": Function("dying", ("bigint",), "boolean", dying)}
