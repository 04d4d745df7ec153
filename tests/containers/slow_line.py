"""A line that is slow and loses packets, for kernels that cannot pretend to be one (netem): a relay of one TCP port.

    slow_line.py PORT HOST PORT DELAY_S LOSS

Each piece is passed on after the delay, in either direction. TCP sends one that is lost again after its shortest
timeout, and what follows waits for it: so it, and all behind it, come that much later. It runs in a container by
itself, from the standard library alone.
"""

import asyncio
import random
import sys

PACKET = 1448
AGAIN_S = 0.2


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float, loss: float) -> None:
    clock = asyncio.get_running_loop().time
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def arrive() -> None:
        while True:
            due, piece = await under_way.get()
            await asyncio.sleep(due - clock())
            if not piece:
                writer.close()
                return
            writer.write(piece)
            await writer.drain()

    arriving, due = asyncio.create_task(arrive()), 0.0
    try:
        while not arriving.done() and (piece := await reader.read(PACKET)):
            due = max(due, clock() + delay_s) + AGAIN_S * (random.random() < loss)
            under_way.put_nowait((due, piece))
    finally:
        # Whoever ends, in order or not: the other side is told.
        under_way.put_nowait((max(due, clock() + delay_s), b""))
        await arriving


async def main(port: int, host: str, to: int, delay_s: float, loss: float) -> None:

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, to)
        ways = (reader, far_writer), (far_reader, writer)
        await asyncio.gather(*(pass_on(*way, delay_s, loss) for way in ways), return_exceptions=True)

    async with await asyncio.start_server(relay, "0.0.0.0", port) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5])))
