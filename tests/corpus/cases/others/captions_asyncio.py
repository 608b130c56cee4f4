"""Captions for images from a captioning service, as an asyncio program: fetchers, a process pool for tokenizing, a
training loop that takes batches of an asyncio.Queue. The service is a small server of this script."""
import argparse
import asyncio
import concurrent.futures
import multiprocessing
import os
import random


def tokenize(text):
    return [hash(word) % 30000 for word in text.split()]


def serve(port_pipe, delay):
    async def answer(reader, writer):
        while line := await reader.readline():
            number = int(line)
            await asyncio.sleep(delay if number > 40 else 0.005)
            writer.write(b" ".join(b"word%d" % (number * k % 977) for k in range(60)) + b"\n")
            await writer.drain()
        writer.close()

    async def run():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port_pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


async def fetcher(port, numbers, captions):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while not numbers.empty():
        number = numbers.get_nowait()
        writer.write(b"%d\n" % number)
        await writer.drain()
        await captions.put((await reader.readline()).decode())
    writer.close()


async def train(port, samples, pool):
    loop = asyncio.get_running_loop()
    numbers, captions = asyncio.Queue(), asyncio.Queue(maxsize=8)
    for number in random.Random(1).sample(range(samples), samples):
        numbers.put_nowait(number % 80)
    fetchers = [asyncio.create_task(fetcher(port, numbers, captions)) for _ in range(4)]
    seen = 0
    for step in range(samples):
        tokens = await loop.run_in_executor(pool, tokenize, await captions.get())
        seen += len(tokens)
        if step % 50 == 0:
            print(f"{step}: {seen} tokens", flush=True)
    await asyncio.gather(*fetchers)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--delay", type=float, default=600, help="of the service for long captions")
    options = parser.parse_args()
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    server = context.Process(target=serve, args=(there, options.delay), daemon=True)
    server.start()
    port = here.recv()
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        asyncio.run(train(port, options.samples, pool))
    server.terminate()


if __name__ == "__main__":
    main()
