"""replayer.py PORT TARGET FILE: pass connections on to TARGET; when FILE is there, say it all again."""

import os
import socket
import sys
import threading
import time
from contextlib import suppress

said: list[list[bytes]] = []  # by connection


def pump(source: socket.socket, sink: socket.socket, kept: list[bytes]) -> None:
    while chunk := source.recv(65536):
        kept.append(chunk)
        sink.sendall(chunk)


def serve(listener: socket.socket, target: tuple[str, int]) -> None:
    while True:
        client, _ = listener.accept()
        try:
            server = socket.create_connection(target)
        except OSError:
            client.close()
            continue
        said.append([])
        for source, sink, kept in ((client, server, said[-1]), (server, client, [])):
            threading.Thread(target=pump, args=(source, sink, kept), daemon=True).start()


def main(port: str, target: str, signal_file: str) -> None:
    place = ("127.0.0.1", int(target))
    listener = socket.create_server(("", int(port)))
    threading.Thread(target=serve, args=(listener, place), daemon=True).start()
    print("listening", flush=True)
    while not os.path.exists(signal_file):
        time.sleep(0.02)
    wires = [socket.create_connection(place) for _ in said]
    for wire, chunks in zip(wires, list(said), strict=True):
        with suppress(ConnectionError):  # to be hung up on is an answer, too
            for chunk in list(chunks):
                wire.sendall(chunk)
    print(f"replayed {sum(map(len, said))} pieces", flush=True)
    time.sleep(600)  # the connections stay


if __name__ == "__main__":
    main(*sys.argv[1:])
