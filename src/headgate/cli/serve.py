"""`headgate serve`: starts a service process, and says where it is."""

from __future__ import annotations

import os
import signal
import sys

from rich.text import Text

from headgate.cli.console import Output
from headgate.errors import Superseded, TaskFailed
from headgate.service.config import ServiceConfig
from headgate.service.process import TOKEN_VARIABLE, ServiceProcess

LOOPBACK = ("127.0.0.1", "localhost", "::1")
STOPPED, INTERRUPTED, TAKEN_OVER, DIED = 0, 130, 75, 70
"""Exit codes: after SIGTERM, after Ctrl-C, when another process has taken over (start it again as a standby), and when
Spark has died (start it again)."""
WELCOME = """
headgate serves at  {url}
{token}

{trial}
Open {url}/ (the page) and {url}/docs (the REST API). Ctrl-C stops it; registered queries stay.
"""
TRIAL = """Try, in another terminal in this folder:
  headgate query add "SELECT city, count(*) AS n, avg(temp) AS temp FROM weather GROUP BY city, TUMBLE(time, INTERVAL '10 seconds')"
  headgate query tail 0
"""


def serve(config: ServiceConfig, output: Output) -> None:
    """Start everything, say where it is, and serve until stopped. This ends the process."""
    process = ServiceProcess(config)
    try:
        _serve(process, output)
    except KeyboardInterrupt:
        pass
    except Superseded as error:
        output.say(f"stopped: {error}", style="red")
        _end(TAKEN_OVER)
    except TaskFailed as error:
        output.say(f"stopped: {error}", style="red")
        _end(DIED)
    output.say("stopped", style="dim")
    _end(STOPPED if process.signal == signal.SIGTERM else INTERRUPTED)


def _end(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is closed, but threads of Spark that still run would delay the interpreter's own exit.
    os._exit(code)


def _serve(process: ServiceProcess, output: Output) -> None:
    config = process.config
    output.say(f"starting Spark ({config.master}); its log is {process.spark_log}", style="dim")
    with process:
        if config.host not in LOOPBACK:
            output.say(
                f"listening on {config.host}: anyone who can reach it and has a token can use it",
                style="yellow",
            )
        process.lead(lambda: output.say(f"standing by at {process.url}", style="dim"))
        if process.service.upgraded:
            output.say(process.service.upgraded, style="yellow")
        # These lines are not wrapped, because they are there to be copied.
        kept = {"url": process.url, "token_file": str(process.token_file)}
        line = f"admin's token       is kept in {process.token_file}"
        if os.environ.get(TOKEN_VARIABLE):
            line = f"admin's token       is that of {TOKEN_VARIABLE}"
        if process.token_is_new:  # it is shown once
            kept["token"] = process.token_file.read_text(encoding="utf-8").strip()
            line = f"admin's token       {kept['token']}  (kept in {process.token_file}, and not shown again)"
        welcome = Text(
            WELCOME.format(url=process.url, token=line, trial=TRIAL if config.demo else ""),
            no_wrap=True,
            overflow="ignore",
        )
        output.result(welcome, kept)
        try:
            process.wait()
        except Superseded as error:
            output.say(f"stopped: {error}", style="red")
            _end(TAKEN_OVER)  # at once: nothing of what is under way can be committed
        output.say(
            "stopping: the batch under way is finished first; a second signal ends this at once", style="dim"
        )
