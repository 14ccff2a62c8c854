# What `python -m ipykernel_launcher` does, with a faster start, a faster end, and no message too long for a client.
import atexit
import gc
import importlib.util
import os
import sys
import types


def _end_now():
    # Registered first, so it runs after all other exit handlers: what would follow is taking modules apart.
    # After an error that ended the process, its exit status has to stay what it is.
    if not hasattr(sys, "last_type"):
        os._exit(0)


atexit.register(_end_now)
# As ipykernel_launcher: the working directory comes back with the shell, after the kernel's own modules.
if sys.path and sys.path[0] == "":
    del sys.path[0]
# Nothing that is imported here is ever garbage.
gc.disable()
try:
    from ipykernel import iostream, kernelapp, kernelbase
    from traitlets.config import Config
    import zmq
except ModuleNotFoundError as error:
    print(f"{sys.executable}: {error}", file=sys.stderr, flush=True)
    os._exit(1)

gc.freeze()
gc.enable()


def _in_pieces(flush_buffers):
    """`OutStream._flush_buffers` that gives at most `piece` characters at a time.

    ipykernel makes one message of what is written within 200 ms, however long; what is too long for a client is lost
    to it.
    """
    piece = 4 << 20

    def flush_in_pieces(self):
        self._publishing = True
        try:
            for parent, data in flush_buffers(self):
                for start in range(0, len(data), piece):
                    yield parent, data[start : start + piece]
        finally:
            self._publishing = False

    return flush_in_pieces


def _only_if_needed(flush):
    """`OutStream.flush` that returns at once if nothing is left to publish.

    ipykernel flushes stdout and stderr before each display and at the end of each cell, and each time waits until
    another thread has looked into empty buffers: a third of what a small cell costs, most of what a display does.
    """

    def flush_if_needed(self):
        # In this order: while the other thread publishes, the buffers are empty already.
        if self._buffers or self._publishing or self.echo is not None:
            flush(self)

    return flush_if_needed


def _to_the_same_buffer(write):
    """`OutStream.write` that remembers the buffer of the last one.

    ipykernel looks it up by a set made of the cell's whole header, for every piece that `print` writes: most of what
    printing costs. Whatever is out of the ordinary goes the old way.
    """

    def write_to_the_same(self, string):
        parent = self.parent_header
        buffers, last_parent, append = self._last
        if parent is last_parent and type(string) is str and os.getpid() == self._master_pid:
            with self._buffer_lock:
                # A flush that is pending has not taken the buffers yet, and will.
                if self._flush_pending and self._buffers is buffers:
                    return append(string)
        written = write(self, string)
        if self.echo is None and self.pub_thread is not None:
            with self._buffer_lock:
                buffers = self._buffers
                buffer = buffers.get(frozenset(parent.items()))
                # Without a buffer a flush was faster; the next write makes one.
                self._last = (buffers, parent, buffer.write) if buffer else (None, None, None)
        return written

    return write_to_the_same


def _with_a_longer_queue(init_iopub):
    """`IPKernelApp.init_iopub` with a socket that holds 100,000 messages for who reads slowly, not 1,000.

    What does not fit is dropped without a word.
    """

    def init(self, context):
        context.setsockopt(zmq.SNDHWM, 100_000)  # For sockets that are made from now on.
        try:
            return init_iopub(self, context)
        finally:
            context.sockopts.pop(zmq.SNDHWM, None)

    return init


def _checkpoint_request(self, stream, ident, parent):
    """A copy of this kernel is wanted (src/kernel/checkpoint): how to make one comes with the request."""
    content = parent["content"]
    try:
        if "sponde_checkpoint" not in sys.modules:
            module = types.ModuleType("sponde_checkpoint")
            exec(compile(content["source"], "<sponde checkpoint>", "exec"), vars(module))
            sys.modules["sponde_checkpoint"] = module
        reply = sys.modules["sponde_checkpoint"].prepare(content)
    except Exception as error:
        reply = {"status": "unsafe", "why": [f"{type(error).__name__}: {error}"]}
    self.session.send(stream, "sponde_checkpoint_reply", reply, parent, ident)


class _WidthForPandas:
    """Tells pandas, once it is imported, how wide the terminal is: in a notebook it breaks tables at 80 columns."""

    def __init__(self, columns):
        self.columns = columns

    def find_spec(self, name, path=None, target=None):
        if name != "pandas":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            exec_module = spec.loader.exec_module

            def exec_and_tell(module):
                exec_module(module)
                module.set_option("display.width", self.columns)

            spec.loader.exec_module = exec_and_tell
        return spec


columns = os.environ.get("COLUMNS", "")
if columns.isascii() and columns.isdigit() and 20 <= int(columns) <= 1000:
    sys.meta_path.insert(0, _WidthForPandas(int(columns)))
kernelapp.IPKernelApp.init_iopub = _with_a_longer_queue(kernelapp.IPKernelApp.init_iopub)
if hasattr(iostream.OutStream, "_flush_buffers"):  # ipykernel 6.27 and later
    iostream.OutStream._publishing = False
    iostream.OutStream._last = (None, None, None)
    iostream.OutStream._flush_buffers = _in_pieces(iostream.OutStream._flush_buffers)
    iostream.OutStream.flush = _only_if_needed(iostream.OutStream.flush)
    iostream.OutStream.write = _to_the_same_buffer(iostream.OutStream.write)
kernelbase.Kernel.sponde_checkpoint_request = _checkpoint_request
kernelbase.Kernel.msg_types = [*kernelbase.Kernel.msg_types, "sponde_checkpoint_request"]
# IPython's own completer answers in milliseconds. Jedi's first answer takes seconds, and a person waits for it at Tab. A
# person's own ipython_kernel_config.py comes later and has the last word.
app = kernelapp.IPKernelApp.instance(config=Config({"Completer": {"use_jedi": False}}))
app.initialize()
app.start()
if "sponde_checkpoint" in sys.modules:
    sys.modules["sponde_checkpoint"].go_on()
