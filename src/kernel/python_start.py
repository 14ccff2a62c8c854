# What `python -m MODULE` does, for kernels made with ipykernel: with a queue that holds 100,000 messages for who reads
# slowly, and not 1,000, beyond which lines are dropped without a word (bash_kernel sends each line by itself).
import os
import runpy
import sys

sys.argv = sys.argv[1:]
try:
    import zmq
    from ipykernel import kernelapp
except ImportError:
    pass
else:

    def _with_a_longer_queue(init_iopub):
        def init(self, context):
            context.setsockopt(zmq.SNDHWM, 100_000)  # For sockets that are made from now on.
            try:
                return init_iopub(self, context)
            finally:
                context.sockopts.pop(zmq.SNDHWM, None)

        return init

    kernelapp.IPKernelApp.init_iopub = _with_a_longer_queue(kernelapp.IPKernelApp.init_iopub)



def _mend_bash(kernel):
    """bash_kernel that tells how `exit` ended, and refuses code which is not whole instead of waiting for the rest."""
    import subprocess

    execute, start = kernel.do_execute, kernel._start_bash

    def incomplete(code):
        check = subprocess.run(
            ["bash", "-O", "extglob", "-n"],
            input=code.rstrip() + "\n",
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
        )
        words = check.stderr.strip().splitlines()
        signs = ("unexpected end of file", "unexpected EOF while", "delimited by end-of-file")
        return next((line for line in words if any(sign in line for sign in signs)), None)

    def start_and_note(self):
        # Another bash: the one before has ended.
        if hasattr(self, "bashwrapper"):
            child = self.bashwrapper.child
            child.close(force=True)
            self._ended = child.exitstatus if child.signalstatus is None else 128 + child.signalstatus
        start(self)

    def failed(self, value):
        content = {"ename": "", "evalue": value, "traceback": []}
        self.send_response(self.iopub_socket, "error", content)
        return {**content, "execution_count": self.execution_count, "status": "error"}

    # ipykernel passes on what the signature names.
    def do_execute(self, code, silent, store_history=True, user_expressions=None, allow_stdin=False):
        what = incomplete(code)
        if what:
            return failed(self, what)
        self._ended = 0
        reply = execute(self, code, silent, store_history, user_expressions, allow_stdin)
        if self._ended and reply.get("status") == "ok":
            return failed(self, str(self._ended))
        return reply

    kernel.do_execute, kernel._start_bash = do_execute, start_and_note


if sys.argv[0] == "bash_kernel":
    try:
        from bash_kernel.kernel import BashKernel

        _mend_bash(BashKernel)
    except (ImportError, AttributeError):
        pass

runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
