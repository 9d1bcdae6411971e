"""A proxy in front of an S3 server, in a process of its own: it notes every request, and does harm to some, as a seed says.

Run as `python faulty.py PORT UPSTREAM_PORT LOG`. What it does to requests is set with `PUT /_faults` and JSON:
{"seed": 7, "rate": 0.1, "kinds": ["503", "lost"]}. A line of the log is "METHOD path fault".
"""

import asyncio
import json
import random
import sys
from typing import Any
from urllib.parse import urlsplit

KINDS = {
    "refused": "the connection is closed before the request is read",
    "dropped": "the request is read, and nothing else happens",
    "lost": "the request is done, and its answer is lost",
    "late": "the connection is closed, and the request is done later",
    "twice": "the request is done twice, and the second answer is given",
    "torn": "the answer ends in the middle",
    "slow": "the answer takes a while",
    "503": "the server says SlowDown",
    "500": "the server says InternalError",
    "429": "the server says TooManyRequests",
}
CODES = {"503": "SlowDown", "500": "InternalError", "429": "TooManyRequests"}


class Proxy:
    def __init__(self, upstream: int, log: str) -> None:
        self.upstream, self.log = upstream, log
        self.chance, self.rate, self.kinds = random.Random(0), 0.0, list(KINDS)
        self.later: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self.one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether the connection can be used again."""
        head = await reader.readuntil(b"\r\n\r\n")
        method, path = head.split(b" ", 2)[:2]
        fault = self.chance.choice(self.kinds) if self.chance.random() < self.rate else ""
        if fault == "refused" and path != b"/_faults":
            return self.note(method, path, fault)
        body = await self.body(head, reader, writer)
        if path == b"/_faults":
            said = json.loads(body)
            self.chance, self.rate = random.Random(said["seed"]), said["rate"]
            self.kinds = said.get("kinds") or list(KINDS)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return True
        self.note(method, path, fault)
        if fault == "dropped":
            return False
        if fault in CODES:
            text = (
                f"<Error><Code>{CODES[fault]}</Code><Message>told so by the proxy</Message></Error>".encode()
            )
            text = b"" if method == b"HEAD" else text
            writer.write(b"HTTP/1.1 %s No\r\nContent-Length: %d\r\n\r\n" % (fault.encode(), len(text)) + text)
            return True
        if fault == "late":
            self.later.add(asyncio.create_task(self.forward(head, body, after=0.3)))
            return False
        answer = await self.forward(head, body)
        if fault == "twice":
            answer = await self.forward(head, body)
        if fault == "slow":
            await asyncio.sleep(0.3)
        if fault == "lost":
            return False
        if fault == "torn":
            writer.write(answer[: len(answer) - max(1, (len(answer) - answer.index(b"\r\n\r\n")) // 2)])
            return False
        writer.write(answer)
        await writer.drain()
        return b"\r\ncontent-length:" in answer[: answer.index(b"\r\n\r\n") + 2].lower() and method != b"HEAD"

    def note(self, method: bytes, path: bytes, fault: str) -> bool:
        with open(self.log, "a") as file:
            file.write(f"{method.decode()} {path.decode()} {fault}\n")
        return False

    async def body(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        lines = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
        headers = {name.strip().lower(): value.strip().lower() for name, _, value in lines}
        if headers.get(b"expect") == b"100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if headers.get(b"transfer-encoding") == b"chunked":
            body = b""
            while not body.endswith(b"0\r\n\r\n"):
                line = await reader.readuntil(b"\r\n")
                body += line + await reader.readexactly(int(line.split(b";")[0], 16) + 2)
            return body
        return await reader.readexactly(int(headers.get(b"content-length", b"0")))

    async def forward(self, head: bytes, body: bytes, after: float = 0.0) -> bytes:
        if after:
            await asyncio.sleep(after)
        first, _, rest = head.partition(b"\r\n")
        kept = [
            line for line in rest.split(b"\r\n") if not line.lower().startswith((b"connection", b"expect"))
        ]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.upstream)
        writer.write(first + b"\r\nConnection: close\r\n" + b"\r\n".join(kept) + body)
        answer = await reader.read()
        writer.close()
        return answer


async def main(port: int, upstream: int, log: str) -> None:
    proxy = Proxy(upstream, log)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", port, limit=1 << 20)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), urlsplit(f"//h:{sys.argv[2]}").port or 0, sys.argv[3]))
