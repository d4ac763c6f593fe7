"""Commands in processes of their own: none keeps a test waiting for ever, and none outlives it."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

SECONDS = 180  # after which a command and all that it has started are killed: whoever reads from them reads the end
MAIN = "from eiv.__main__ import script; script()"


def hears_interrupts():
    """Undo what a process inherits that was started from a shell in the background: it ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def process_group(arguments, **options):
    """A process, which is killed at the end of the block with all that it has started, however the block ends.

    It has a session of its own, for that; Windows has none, and there its own children are left alone.
    """
    process = subprocess.Popen([*map(str, arguments)], start_new_session=True, **options)
    try:
        yield process
    finally:
        kill(process)
        process.wait(timeout=60)


def kill(process):
    """End a process and its children, as far as they are alive."""
    if not hasattr(os, "killpg"):
        process.kill()
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def started(*arguments, first=hears_interrupts, **options):
    """The same with pipes; it begins with `first`."""
    options = {"text": True} | options
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with process_group(arguments, preexec_fn=first, **pipes, **options) as process:
        watch = threading.Timer(SECONDS, kill, [process])
        watch.daemon = True
        watch.start()
        try:
            yield process
        finally:
            watch.cancel()
            kill(process)
            process.stdout.close()
            process.stderr.close()


def command(*arguments, code=MAIN, **options):
    """The command line as `started`."""
    return started(sys.executable, "-c", code, *arguments, **options)


def ended(*arguments, **options):
    """A process that has run to its end: exit status, stdout and stderr."""
    with started(*arguments, **options) as process:
        out, err = process.communicate(timeout=SECONDS)
        return process.returncode, out, err
