"""Pass packets between two interfaces, late, and not all of them: FIRST SECOND DELAY_MS LOSS_PERCENT.

Some kernels have no netem. It ends when its stdin does.
"""

import heapq
import random
import select
import socket
import sys
import time

ETH_P_ALL = 3
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC = 263, 1, 1
OUTGOING = 4  # a packet that we, or this end's owner, sent


def open_interface(name: str) -> socket.socket:
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    wire.bind((name, 0))
    member = socket.if_nametoindex(name).to_bytes(4, sys.byteorder) + PACKET_MR_PROMISC.to_bytes(
        2, sys.byteorder
    )
    wire.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, member + bytes(10))
    wire.setblocking(False)
    return wire


def main(first: str, second: str, delay_ms: str, loss_percent: str) -> None:
    delay, loss = float(delay_ms) / 1000, float(loss_percent) / 100
    wires = (open_interface(first), open_interface(second))
    other = {wires[0]: wires[1], wires[1]: wires[0]}
    underway: list[tuple[float, int, socket.socket, bytes]] = []
    count = 0
    print("ready", flush=True)
    while True:
        wait = max(0.0, underway[0][0] - time.monotonic()) if underway else None
        ready = select.select([sys.stdin, *wires], [], [], wait)[0]
        if sys.stdin in ready:
            return
        for wire in (wire for wire in wires if wire in ready):
            packet, (_, _, kind, *_) = wire.recvfrom(1 << 17)
            if kind != OUTGOING and random.random() >= loss:
                count += 1
                heapq.heappush(underway, (time.monotonic() + delay, count, other[wire], packet))
        while underway and underway[0][0] <= time.monotonic():
            _, _, wire, packet = heapq.heappop(underway)
            try:
                wire.send(packet)
            except OSError:  # full, or larger than the interface takes: one more that is lost
                continue


if __name__ == "__main__":
    main(*sys.argv[1:])
