# Where a kernel cannot be copied: writes what its variables hold to a file, as far as that can be, and gives it back to the
# same process later. What is rebound but hardly ever changed in place (functions, classes, modules) is only remembered. So
# instances find their class again, and plain pickle does for most. Both functions print one line of JSON.
import io
import json
import os
import pickle
import re
import sys
import types

try:
    import dill as _by
except ImportError:
    try:
        import cloudpickle as _by
    except ImportError:
        _by = pickle

# Names that IPython itself gives.
_IPYTHON = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|_[iod]h|_exit_code|In|Out|exit|quit|get_ipython|open")
_remembered = {}


class _TooLarge(Exception):
    pass


class _Bounded(io.RawIOBase):
    """A file that takes no more than `room` bytes; none at all where only what raises is of interest."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        size = memoryview(data).nbytes
        self.room -= size
        if self.room < 0:
            raise _TooLarge
        return self.file.write(data) if self.file else size


def _names(shell):
    hidden = shell.user_ns_hidden
    return {
        name: value
        for name, value in list(shell.user_ns.items())
        if not _IPYTHON.fullmatch(name) and not (name in hidden and hidden[name] is value)
    }


def _dump(value, file):
    if _by.__name__ == "dill":
        _by.dump(value, file, protocol=5, byref=True)
    else:
        _by.dump(value, file, protocol=5)


def save(shell, path, limit):
    remembered, saved, cannot, reason = {}, {}, {}, None
    for name, value in _names(shell).items():
        rebound = isinstance(value, (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType))
        (remembered if rebound else saved)[name] = value
    try:
        with open(path, "xb") as file:
            try:
                _dump(saved, _Bounded(file, limit))
            except (_TooLarge, OSError):
                raise
            except Exception:
                # Something in there cannot be saved: each by itself says which.
                for name in list(saved):
                    try:
                        _dump(saved[name], _Bounded(None, limit))
                    except _TooLarge:
                        raise
                    except Exception as error:
                        cannot[name] = f"{type(error).__name__}: {error}"[:200]
                        del saved[name]
                file.seek(0)
                file.truncate()
                _dump(saved, _Bounded(file, limit))
            size = file.tell()
    except _TooLarge:
        reason = f"its variables take more than {limit >> 20} MiB"
    except Exception as error:
        reason = f"its variables could not be saved: {type(error).__name__}: {error}"[:300]
    for old in [old for old in _remembered if not os.path.exists(old)]:
        del _remembered[old]
    if reason is None:
        _remembered[path] = remembered, set(cannot)
        answer = {"by": _by.__name__, "names": len(saved) + len(remembered), "bytes": size, "cannot": cannot}
    else:
        if os.path.exists(path):
            os.remove(path)
        answer = {"reason": reason}
    _say(answer)


def _say(answer):
    # The marks of an answer, in one write with it.
    print(f"\x1e{json.dumps(answer)}\n\x1f", end="")


def load(shell, path):
    if path not in _remembered:
        _say({"reason": "the kernel was started again since they were saved"})
        return
    remembered, kept = _remembered[path]
    before = _names(shell)
    # First, for instances look for their classes.
    shell.user_ns.update(remembered)
    try:
        with open(path, "rb") as file:
            saved = _by.load(file)
    except Exception as error:
        shell.user_ns.update(before)
        _say({"reason": f"its variables could not be read: {type(error).__name__}: {error}"[:300]})
        return
    for name in before:
        if name not in remembered and name not in saved and name not in kept:
            del shell.user_ns[name]
    shell.user_ns.update(saved)
    _say({"names": len(saved) + len(remembered)})
