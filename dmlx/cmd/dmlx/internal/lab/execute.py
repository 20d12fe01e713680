"""Runs one notebook from top to bottom and saves it with its outputs.

Arguments: notebook, kernel name, seconds a cell may take (0: no limit). Each line of standard output is a JSON object:
{"cell": 1, "of": 9, "seconds": 0.4} as cells end, then {"saved": true}, or {"failed": {"cell", "source", "message"}},
after which the file is as it was, or {"beside": name} if the file has changed meanwhile.
"""
import json
import os
import re
import signal
import sys
import tempfile
import time

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError


def say(**event):
    print(json.dumps(event), flush=True)


def stop(*_):
    raise KeyboardInterrupt


signal.signal(signal.SIGTERM, stop)
path, kernel, timeout = sys.argv[1], sys.argv[2], int(sys.argv[3])
path = os.path.realpath(path)
with open(path, "rb") as f:
    before = f.read()
notebook = nbformat.reads(before.decode("utf-8"), as_version=4)
code = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
started = current = 0


def on_start(cell, cell_index):
    global started, current
    started, current = time.monotonic(), cell_index


def on_executed(cell, cell_index, execute_reply):
    if cell_index in code:
        say(cell=code.index(cell_index) + 1, of=len(code), seconds=time.monotonic() - started)


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)  # GoNB colors the lines of cells.


def told(cell):
    """What a failing cell has written to standard error."""
    return plain("".join(o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stderr"))


def uncompiled(cell, number):
    """The compiler's errors, each with the line of its cell: GoNB's traceback has the place first and the message last."""
    found = []
    for text in [plain(t) for o in cell.outputs if o.output_type == "error" for t in o.traceback]:
        if place := re.search(r"^.*Cell(?: ?\[(\d+)\]:?)? Line (\d+)", text):
            where = "" if place[1] in (None, str(number)) else f"cell {place[1]}, "
            found.append(f"{where}line {place[2]}: {text.splitlines()[-1]}")
    return found


client = NotebookClient(
    notebook,
    kernel_name=kernel,
    timeout=timeout or None,
    record_timing=False,
    coalesce_streams=True,  # How fast a cell writes is nothing that a saved page shows.
    resources={"metadata": {"path": os.path.dirname(os.path.abspath(path))}},
    on_cell_start=on_start,
    on_cell_executed=on_executed,
)
failure = None
try:
    client.execute()
except CellExecutionError as e:
    cell = notebook.cells[current]
    failure = "; ".join(uncompiled(cell, code.index(current) + 1)) or f"{told(cell)}\n{e.ename}: {e.evalue}"
except CellTimeoutError:
    failure = f"took longer than {timeout} s"
except DeadKernelError:
    failure = "the kernel died"
except KeyboardInterrupt:
    sys.exit(130)
if failure is not None:
    say(failed={"cell": code.index(current) + 1, "source": notebook.cells[current].source, "message": failure})
    sys.exit(1)

try:
    with open(path, "rb") as f:
        changed = f.read() != before
except FileNotFoundError:
    changed = True
to = path
if changed:
    to = os.path.splitext(path)[0] + time.strftime("-executed-%Y%m%d-%H%M%S.ipynb")
with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=os.path.dirname(os.path.abspath(path)), prefix=".", delete=False) as f:
    try:
        nbformat.write(notebook, f)
        f.flush()
        os.fsync(f.fileno())
        os.chmod(f.name, os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644)
        os.replace(f.name, to)
    except BaseException:
        os.unlink(f.name)
        raise
say(**({"beside": to} if changed else {"saved": True}))
sys.exit(changed)
