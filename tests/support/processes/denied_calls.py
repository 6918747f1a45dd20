"""System calls that fail in this process and its children, as a container's profile or an old kernel has it."""

import ctypes
import os
import platform
import struct
from collections.abc import Mapping

import pytest

PIDFD_SEND_SIGNAL, PIDFD_OPEN, CHMOD, FCHMOD = 424, 434, 90, 91
needs_filter = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of system calls are of x86-64")
_SET_SECCOMP, _NO_NEW_PRIVILEGES, _FILTER = 22, 38, 2
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def deny(calls: Mapping[int, int]) -> None:
    """Make these system calls fail with these error numbers, or do nothing where that is 0, from now on."""
    steps = [struct.pack("HBBI", 0x20, 0, 0, 0)]  # load the number of the call
    for call, error in calls.items():
        steps += [struct.pack("HBBI", 0x15, 0, 1, call), struct.pack("HBBI", 0x06, 0, 0, _FAIL | error)]
    steps.append(struct.pack("HBBI", 0x06, 0, 0, _ALLOW))
    code = ctypes.create_string_buffer(b"".join(steps))
    program = _Program(len(steps), ctypes.cast(code, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    for words in ((_NO_NEW_PRIVILEGES, 1, 0), (_SET_SECCOMP, _FILTER, ctypes.byref(program))):
        if libc.prctl(*words, 0, 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose parents have died, as the first process of a container is."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
