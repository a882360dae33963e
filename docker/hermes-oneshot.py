"""Drives hermes' own one-shot entry in this process, because `hermes -z` takes its prompt from the command line alone.

The prompt is read from stdin, the arguments are hermes' own. stdout carries one line, the `result`: exit status, final
text and everything of hermes' usage file; what else is printed goes to stderr. The exit status is 0 only if hermes says
that it completed; hermes itself ends with 0 after most failures. Asked to end, it still tells what was spent.
"""

import io
import json
import os
import signal
import sqlite3
import sys
import tempfile
import threading

# Seconds between a signal and giving up on hermes' own way out.
GRACE = 4


class Asked(SystemExit):
    """A signal asked for the end."""


class Report:
    """The result line, printed once, whoever comes first."""

    def __init__(self, stdout):
        self.stdout = stdout
        self.usage_file = os.path.join(tempfile.mkdtemp(prefix="kew-"), "usage.json")
        self.lock = threading.Lock()
        self.text = io.StringIO()

    def end(self, code):
        with self.lock:
            usage = self.usage()
            good = code == 0 and usage.get("completed") is True and not usage.get("failed")
            line = {"type": "result", "exit_code": code, "text": self.text.getvalue(), **usage}
            with os.fdopen(self.stdout, "w", encoding="ascii") as stdout:
                print(json.dumps(line), file=stdout)
            os._exit(0 if good else code or 1)

    def usage(self):
        try:
            with open(self.usage_file, encoding="utf-8") as file:
                usage = json.load(file)
        except (OSError, ValueError):
            usage = {"completed": False, "failed": True}
        if usage.get("input_tokens") is None:
            usage = {**usage, **session()}
        return usage


def session():
    """What hermes' own state says of a session that it did not live to report."""
    home = os.environ.get("HERMES_HOME") or os.path.expanduser("~/.hermes")
    columns = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "model"]
    columns += ["estimated_cost_usd", "cost_status", "cost_source"]
    try:
        state = sqlite3.connect(f"file:{home}/state.db?mode=ro", uri=True, timeout=1)
        row = state.execute(f"SELECT id, {', '.join(columns)} FROM sessions ORDER BY started_at DESC LIMIT 1").fetchone()
    except sqlite3.Error:
        return {}
    # Nothing was counted: that is unknown, not zero.
    return dict(zip(["session_id", *columns], row)) if row and any(row[1:5]) else {}


def main():
    # Tools and libraries that print to the file descriptor must not end up between the JSON.
    stdout = os.dup(1)
    os.dup2(2, 1)
    report = Report(stdout)

    def asked(number, _frame):
        timer = threading.Timer(GRACE, report.end, [128 + number])
        timer.daemon = True
        timer.start()
        raise Asked(128 + number)

    signal.signal(signal.SIGTERM, asked)
    signal.signal(signal.SIGINT, asked)
    try:
        report.end(run(report))
    except Asked as end:
        report.end(end.code)


def run(report):
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    if not prompt.strip():
        print("kew: the prompt says nothing", file=sys.stderr)
        return 64
    sys.stdin = open(os.devnull, encoding="utf-8")
    # As `hermes -z` has it: nobody is there to be asked. It is read when hermes' modules are loaded.
    os.environ["HERMES_YOLO_MODE"] = "1"
    from hermes_cli._parser import build_top_level_parser
    from hermes_cli.main import _prepare_agent_startup
    from hermes_cli.oneshot import run_oneshot

    parser, _, _ = build_top_level_parser()
    args = parser.parse_args(["--oneshot", "(on stdin)", "--usage-file", report.usage_file, *sys.argv[1:]])
    # Neither the process list nor a tool sees the prompt: it is in this process alone.
    _prepare_agent_startup(args)
    sys.stdout = report.text
    try:
        return run_oneshot(
            prompt,
            model=args.model,
            provider=args.provider,
            toolsets=args.toolsets,
            usage_file=report.usage_file,
        )
    finally:
        sys.stdout = sys.stderr


if __name__ == "__main__":
    main()
