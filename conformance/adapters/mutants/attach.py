"""``python -I -S attach.py SOCKET NAME``: the process of a mutant, in little time.

Hands its standard streams to a child of the fork server, and stays until that ends. It is a script
and no module of the package, so that nothing else is imported.
"""

import socket
import sys

with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    socket.send_fds(connection, [sys.argv[2].encode()], [0, 1, 2])
    connection.recv(1)
