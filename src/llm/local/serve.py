"""Runs one model in llama.cpp's own server (package `xllamacpp`) for the Sponde process that started it.

Options arrive as one JSON line on stdin, which then stays open: its end means that Sponde is gone.
Events leave as JSON lines on stdout; everything else that wants to print goes to stderr, the log.
"""

import ctypes
import json
import os
import signal
import sys
import threading


def serve(options):
    die_with(options["parent"])
    say = event_channel()
    try:
        import xllamacpp
    except ImportError as error:
        say(event="no-package", error=str(error))
        return 3

    params = xllamacpp.CommonParams()
    params.model.path = options["model"]
    params.model_alias = {options["alias"]}
    params.api_keys = [options["api_key"]]
    params.port = 0
    params.n_ctx = options["context"]
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options["threads"]
    params.use_jinja = True
    if options["template"] is not None:
        params.chat_template = options["template"]
    if options["prompts"] is not None:
        params.slot_save_path = options["prompts"] + os.sep
    # Newer versions only: no web page, and no gigabytes of saved prompts for a single client.
    for name, value in {"ui": False, "cache_ram_mib": options["cache_mib"]}.items():
        if hasattr(params, name):
            setattr(params, name, value)

    say(event="loading")
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        print(error, file=sys.stderr, flush=True)
        return 4
    say(event="listening", address=server.listening_address)
    threading.Event().wait()


def die_with(parent):
    """Ends this process when `parent` ends, however it ends."""
    if sys.platform == "linux":
        # Works while the server is loading, when no Python thread can run.
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)  # It was gone before the call above.
    threading.Thread(target=exit_at_end_of_input, daemon=True).start()


def exit_at_end_of_input():
    while os.read(0, 4096):
        pass
    os._exit(0)


def event_channel():
    """Takes stdout for events alone: file descriptor 1 becomes the log."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.set_inheritable(events.fileno(), False)
    os.dup2(2, 1)

    def say(**event):
        print(json.dumps(event), file=events, flush=True)

    return say


sys.exit(serve(options))  # noqa: F821 -- `options` is set by the line that runs this text
