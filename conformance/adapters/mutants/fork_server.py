"""``python -m conformance.adapters.mutants.fork_server SOCKET``: many mutants from one import.

Importing the package takes longer than the cases that catch a mutant. So this process imports it
once, and forks for each `attach.py` that connects: the child takes over its standard streams,
breaks the package, and answers the suite. It ends at the end of its own input.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import threading

from conformance.adapters.json_lines import serve
from conformance.adapters.mutants.table import MUTANTS
from conformance.adapters.python.implementation import IMPLEMENTATION

_LONGEST_NAME = 200
_STREAMS = (0, 1, 2)


def main(path: str) -> None:
    """Fork for every connection, until the input ends."""
    # Nobody waits for the children.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()  # a collection in a child would copy all of this memory
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    _become_mutant(connection)
                    # Without the clean-up of the process that it is a copy of.
                    os._exit(0)


def _become_mutant(connection: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    name, streams, _, _ = socket.recv_fds(connection, _LONGEST_NAME, len(_STREAMS))
    for received, stream in zip(streams, _STREAMS, strict=True):
        os.dup2(received, stream)
        os.close(received)
    threading.Thread(target=_end_with, args=[connection], daemon=True).start()
    MUTANTS[name.decode()].apply()
    serve(IMPLEMENTATION)
    sys.stdout.flush()


def _end_with(connection: socket.socket) -> None:
    """End this process when the one that asked for it has been killed."""
    connection.recv(1)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
