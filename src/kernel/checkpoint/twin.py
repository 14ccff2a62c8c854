# Dormant copies of this kernel, made by forking it, from which it can go on later.
#
# A request only stops the event loop: the fork happens at the top of the stack, in the thread of the loop, with no frame
# of the code and no running loop. The copy lets go of all that is its original's (sockets, event loops), connects to
# the process that asked for it and waits for an order; when the connection ends it exits. Ordered to wake, it forks again, so that
# it can wake another time, and the new process becomes a kernel on another connection file, with the same shell: the
# variables, the history and the numbers of its cells, imported modules, open figures.
import asyncio
import atexit
import ctypes
import json
import os
import random
import re
import signal
import socket
import stat
import sys
import threading
import time
import traceback
import warnings

import ipykernel
import zmq
from ipykernel import kernelapp
from ipykernel.displayhook import ZMQDisplayHook
from ipykernel.iostream import OutStream
from tornado import ioloop

# Threads that do not survive a fork and that nobody can start again, by the names they have for the system. Those of
# OpenBLAS, Arrow, DuckDB and OpenMP are called as the process, and are no harm.
NATIVE = re.compile(r"polars|tokio|async-executor|async-std|rayon|cuda|grpc|ray")
# Modules whose processes or devices are lost to a copy.
MODULES = ("dask.distributed", "distributed", "grpc", "jax", "pyspark", "ray", "tensorflow")
DATABASE = re.compile(r"\.(db|duckdb|sqlite3?)(-wal|-journal)?$")
# IPython's own, with the files that SQLite has beside it for a moment.
HISTORY = re.compile(r"history\.sqlite(-journal|-wal|-shm)?$")
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None)
_pending = None  # the request for which the loop was stopped
_woken = False  # this process is a copy whose application has not been started
_kept = []  # what belongs to an ancestor and must never be finalised


def prepare(content):
    """Stops the loop so that `go_on` makes a copy, or says why there can be none."""
    global _pending
    app = kernelapp.IPKernelApp.instance()
    why = _unsafe(app)
    if why:
        return {"status": "unsafe", "why": why}
    # The threads of an OpenMP pool belong to the thread that used it: only a copy made by another is without them.
    in_thread = _has_openmp()
    _pending = content["socket"], content["token"], in_thread
    app.io_loop.call_later(0, app.io_loop.stop)
    return {"status": "ok", "notes": _notes(app, in_thread)}


def go_on():
    """When the loop has stopped: makes the copy that was asked for and runs the loop again, until it stops for good."""
    global _pending
    while _pending:
        request, _pending = _pending, None
        _fork(*request)
        _run()


def probe():
    """Uses what is known to hang in forked processes. That it comes back is all."""
    for name, use in (
        ("threading", lambda module: _join(module.Thread(target=int))),
        ("sqlite3", lambda module: module.connect(":memory:").execute("select 1").fetchone()),
        ("numpy", lambda module: module.ones((64, 64)) @ module.ones((64, 64))),
        ("pandas", lambda module: module.DataFrame({"a": [1, 2]}).groupby("a").size()),
        ("pyarrow", lambda module: module.array([1, 2]).sum()),
    ):
        try:
            use(sys.modules[name])
        except Exception:
            pass


def _join(thread):
    thread.start()
    thread.join()


def _run():
    global _woken
    app = kernelapp.IPKernelApp.instance()
    if _woken:
        _woken = False
        return app.start()
    try:
        app.io_loop.start()
    except KeyboardInterrupt:
        pass


# What stands in the way.


def _unsafe(app):
    why = []
    if ipykernel.version_info[0] < 7:
        why.append(f"ipykernel {ipykernel.__version__} is too old for it, it has to be 7 or newer")
        return why
    if not isinstance(app.io_loop.asyncio_loop, asyncio.SelectorEventLoop):
        why.append("it runs an event loop of another kind")
    if app.trio_loop or app.kernel.eventloop is not None:
        why.append("it runs the event loop of another library")
    if app.shell_channel_thread.manager.list_subshell():
        why.append("it has subshells")
    own = _own_threads(app)
    for thread in threading.enumerate():
        if thread not in own and not _is_harmless(thread):
            kind = type(thread)
            kind = "" if kind is threading.Thread else f", a {kind.__module__}.{kind.__qualname__}"
            why.append(f"a thread is running: {thread.name}{kind}")
    native = {}
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as file:
                found = NATIVE.search(file.read())
        except OSError:
            continue
        if found:
            native[found[0]] = None
    why += [f"{name} has started its threads" for name in native]
    why += [f"{name} is loaded" for name in MODULES if name in sys.modules]
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        why.append("torch uses a graphics card")
    return why


def _own_threads(app):
    own = [threading.current_thread(), threading.main_thread(), app.iopub_thread.thread, app.heartbeat, app.poller]
    own += [app.control_thread, app.shell_channel_thread]
    own += [getattr(stream, "watch_fd_thread", None) for stream in _streams(app)]
    own.append(getattr(app.shell.history_manager, "save_thread", None))
    script = _script_magics(app.shell)
    finalizer = getattr(script, "_event_loop_finalizer", None)
    if finalizer is not None and finalizer.alive:
        own += finalizer.peek()[2]
    return [thread for thread in own if thread is not None]


def _is_harmless(thread):
    # tqdm's, which only looks at the clock; and one of ZeroMQ for large messages, which it makes anew in a copy.
    if type(thread).__name__ in ("TMonitor", "GarbageCollectorThread"):
        return True
    loky = sys.modules.get("joblib.externals.loky.reusable_executor")
    # A copy starts the workers anew.
    return getattr(loky, "_executor", None) is not None and thread.name.startswith(("ExecutorManager", "QueueFeeder"))


def _streams(app):
    return app.kernel._stdout, app.kernel._stderr


def _script_magics(shell):
    """What runs `%%bash`, in a thread of its own."""
    return shell.magics_manager.registry.get("ScriptMagics")


def _has_openmp():
    with open("/proc/self/maps") as file:
        return any("libgomp" in line or "libiomp" in line or "libomp" in line for line in file)


def _notes(app, in_thread):
    """What will not be as it was, though a copy is made."""
    notes = []
    loop = app.io_loop.asyncio_loop
    if len(asyncio.all_tasks(loop)) > len({asyncio.current_task(loop)} - {None}) + _kernel_tasks(loop):
        notes.append("asyncio tasks in the background end")
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            if file.read().split():
                notes.append("programs that the code started and that still run end")
    except OSError:
        pass
    files, databases, connections = [], [], 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{fd}")
            if path.startswith("socket:"):
                connections += _is_connection(int(fd), app)
                continue
            if HISTORY.search(path) or not stat.S_ISREG(os.stat(int(fd)).st_mode):
                continue
            with open(f"/proc/self/fdinfo/{fd}") as file:
                flags = int(re.search(r"flags:\s*(\d+)", file.read())[1], 8)
        except OSError:
            continue
        if DATABASE.search(path):
            databases.append(os.path.basename(path))
        elif flags & os.O_ACCMODE != os.O_RDONLY and not path.startswith(("/memfd:", "/dev/shm/")):
            files.append(os.path.basename(path))
    if databases:
        notes.append(f"open databases may have to be opened again: {', '.join(sorted(set(databases)))}")
    elif in_thread and any(type(value).__module__ == "sqlite3" for value in list(app.shell.user_ns.values())):
        notes.append("connections to SQLite have to be opened again")
    if files:
        notes.append(f"open files keep the position that they have now: {', '.join(sorted(set(files)))}")
    if connections:
        notes.append("open network connections may not work any more")
    return notes


def _kernel_tasks(loop):
    """Those that wrap the running request: the dispatcher's own, not the code's."""
    current = asyncio.current_task(loop)
    names = ("shell_main", "dispatch_shell", "run_in_context")
    return sum(
        1
        for task in asyncio.all_tasks(loop)
        if task is not current and getattr(task.get_coro(), "__name__", "") in names
    )


def _is_connection(fd, app):
    with socket.socket(fileno=os.dup(fd)) as found:
        if found.family == socket.AF_UNIX:
            return False
        try:
            # What processes below this one print comes over a port of the kernel's own.
            ports = {found.getsockname()[1], found.getpeername()[1]}
        except OSError:
            return False
        return getattr(app.iopub_thread, "_pipe_port", None) not in ports


# The copy.


def _fork(path, token, in_thread):
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    if not in_thread:
        return _copy(path, token, False)
    # In the copy it is the thread of everything, so its stack is a main thread's.
    before = threading.stack_size(64 << 20)
    try:
        _join(threading.Thread(target=_copy, args=(path, token, True), name="checkpoint"))
    finally:
        threading.stack_size(before)


def _copy(path, token, in_thread):
    if not _orphan():
        return
    try:
        _sleep(path, token)
    except BaseException:
        os._exit(70)
    if in_thread:
        threading.stack_size(0)
        try:
            _run()
            go_on()
            atexit._run_exitfuncs()
        finally:
            os._exit(0)


def _orphan():
    """Forks a process that is not our child but our parent's and dies with that one; true in it."""
    state = random.getstate()  # Seeds itself anew in whatever is forked.
    middle = _quiet_fork()
    if middle:
        os.waitpid(middle, 0)
        return False
    try:
        middle = os.getpid()
        if _quiet_fork():
            os._exit(0)
        os.setsid()
        # Not before the process between us is gone: its death is not the one that is meant.
        while os.getppid() == middle:
            time.sleep(0.0002)
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        random.setstate(state)
    except BaseException:
        os._exit(70)
    return True


def _quiet_fork():
    with warnings.catch_warnings():
        # That there are threads is known.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _connect(path, token):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    connection.sendall(json.dumps({"token": token}).encode() + b"\n")
    return connection


def _sleep(path, token):
    """Waits for orders; returns in the process that shall be a kernel."""
    app = kernelapp.IPKernelApp.instance()
    _kept.append((app, app.kernel, app.context, app.io_loop, dict(app.__dict__)))
    _let_go(app)
    likely = _die_first("1000")
    orders = _connect(path, token)
    rest = b""
    while data := orders.recv(65536):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if _orphan():
                orders.close()
                _die_first(likely)
                return _wake(app, path, **json.loads(line))
    os._exit(0)


def _die_first(score):
    """How likely the system kills this process when memory is short; returns what was before."""
    try:
        with open("/proc/self/oom_score_adj", "r+") as file:
            before = file.read().strip()
            file.seek(0)
            file.write(score)
        return before
    except OSError:
        return "0"


def _let_go(app):
    """Closes what is the original's: whatever was done to a shared epoll would be done to its too.

    What Python owns is closed through its object, so that nobody closes a number again that has another meaning by
    then; what libzmq owns, by number: it never touches the sockets of another process again.
    """
    loops = [app.iopub_thread.io_loop, app.control_thread.io_loop, app.shell_channel_thread.io_loop, app.io_loop]
    script = _script_magics(app.shell)
    if getattr(script, "event_loop", None) is not None:
        loops.append(script.event_loop)
    for loop in loops:
        loop = getattr(loop, "asyncio_loop", loop)
        loop._selector._selector.close()
        loop._ssock.close()
        loop._csock.close()
    for stream, fd in zip(_streams(app), (1, 2)):
        os.dup2(stream._original_stdstream_copy, fd)
        os.close(stream._fid)
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
            if "eventpoll" in target or "eventfd" in target or (target.startswith("socket:") and _is_transport(fd, app)):
                os.close(fd)
        except OSError:
            pass


def _is_transport(fd, app):
    with socket.socket(fileno=os.dup(fd)) as found:
        try:
            address = found.getsockname()
        except OSError:
            return False
        if found.family == socket.AF_UNIX:
            return isinstance(address, str) and address.startswith(app.ip)
        return found.family == socket.AF_INET and address[1] == getattr(app.iopub_thread, "_pipe_port", None)


# The kernel that it becomes.


class Woken(kernelapp.IPKernelApp):
    """A kernel's application around a shell that is there: without configuration, extensions and start-up files."""

    def adopt(self, old, connection_file, raw):
        self.profile_dir, self.config, self.log = old.profile_dir, old.config, old.log
        self.connection_file = connection_file
        self.parent_handle = 0
        self.old, self.raw = old, raw
        self.init_connection_file()
        self.init_sockets()
        self.init_heartbeat()
        self.log_connection_info()
        theirs = sys.stdout, sys.stderr
        self.init_io()
        self.init_signal()
        self.init_kernel()
        self.init_shell()
        # The code may have put something in front of them.
        sys.stdout, sys.stderr = theirs
        del self.old, self.raw

    def configure_tornado_logger(self):
        """It is configured."""

    def log_connection_info(self):
        names = ("shell", "iopub", "stdin", "hb", "control")
        self._ports = {name: getattr(self, f"{name}_port") for name in names}

    def init_io(self):
        # What the process itself says, apart from its code, goes to who woke it.
        os.dup2(self.raw.fileno(), 2)
        for name, stream in zip(("stdout", "stderr"), _streams(self.old)):
            before = stream._original_stdstream_copy
            if name == "stderr":
                os.dup2(2, before, inheritable=False)
            # The same objects, made anew: others hold them, loggers for example.
            setattr(sys, name, getattr(sys, f"__{name}__"))
            for ours in ("_last", "_publishing"):
                vars(stream).pop(ours, None)
            OutStream.__init__(stream, self.session, self.iopub_thread, name)
            setattr(sys, name, stream)
        self.raw.close()
        self.displayhook = ZMQDisplayHook(self.session, self.iopub_socket)
        sys.displayhook = self.displayhook


def _wake(old, path, token, connection_file):
    global _woken
    raw = _connect(path, token)
    state = random.getstate()
    try:
        _forget(old)
        _adopt(old, connection_file, raw)
    except BaseException:
        if raw.fileno() >= 0:
            os.dup2(raw.fileno(), 2)
        os.write(2, traceback.format_exc().encode())
        os._exit(70)
    _woken = True
    shell = old.shell

    def before_the_first_cell(*_):
        shell.events.unregister("pre_run_cell", before_the_first_cell)
        random.setstate(state)

    # Whatever a start takes of it.
    shell.events.register("pre_run_cell", before_the_first_cell)


def _forget(old):
    """Takes out of the process what belongs to its dead ancestor."""
    for exit_handler in (old.close, old.cleanup_connection_file, old.iopub_thread.stop):
        atexit.unregister(exit_handler)
    asyncio._set_running_loop(None)
    asyncio.set_event_loop(asyncio.new_event_loop())
    zmq.Context._instance = None
    history = old.shell.history_manager
    if history is not None:
        # A connection to SQLite is of no use on this side of a fork. What the session ran is known without it.
        _kept.append((history.save_thread, getattr(history, "db", None)))
        history.enabled = False
        history.save_thread = None
    script = _script_magics(old.shell)
    if getattr(script, "event_loop", None) is not None:
        _kept.append((script.event_loop, script._event_loop_finalizer.detach()))
        script._event_loop_finalizer = script.event_loop = None
    modules = sys.modules
    if "multiprocessing.process" in modules:
        modules["multiprocessing.process"]._children.clear()
    for name in ("multiprocessing.resource_tracker", "joblib.externals.loky.backend.resource_tracker"):
        if name in modules:
            tracker = modules[name]._resource_tracker
            tracker._fd = tracker._pid = None
    if "joblib.externals.loky.reusable_executor" in modules:
        modules["joblib.externals.loky.reusable_executor"]._executor = None


def _adopt(old, connection_file, raw):
    shell, kernel = old.shell, old.kernel
    type(old).clear_instance()
    type(kernel).clear_instance()
    app = Woken.instance()
    comms = kernel.comm_manager
    shell.configurables[:] = [one for one in shell.configurables if one is not old and one is not comms]
    shell.parent = app
    app.adopt(old, connection_file, raw)
    shell.kernel = comms.kernel = app.kernel
    # Widgets hold the kernel that they were made in.
    for comm in comms.comms.values():
        comm.kernel = app.kernel
    app.io_loop = ioloop.IOLoop.current()
