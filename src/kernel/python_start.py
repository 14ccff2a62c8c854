# What `python -m MODULE` does, for kernels made with ipykernel: with a queue that holds 100,000 messages for who reads
# slowly, and not 1,000, beyond which lines are dropped without a word (bash_kernel sends each line by itself).
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

runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
