"""A server of Sail, an engine behind Spark Connect: `python sail_server.py FILE` writes its port to FILE, and serves."""

import os
import sys
import threading
from pathlib import Path


def main(file: Path) -> None:
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer(ip="127.0.0.1", port=0)
    server.start(background=True)
    _, port = server.listening_address
    file.with_suffix(".new").write_text(str(port))
    os.replace(file.with_suffix(".new"), file)
    threading.Event().wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
