#!/usr/bin/python3
"""Types lines into an interactive shell and prints what it made of them.

    type_in_shell.py bash|zsh SCRIPT FOLDER <LINES

A line is typed and then a tab. What the shell has on its line afterwards is printed, each word in angle brackets. SCRIPT is the
completion script; FOLDER, with the program, comes first in PATH.
"""

import os
import pty
import re
import select
import sys
import time

shell, script, folder = sys.argv[1:]
LIMIT = 20

arguments = {"bash": ["bash", "--noprofile", "--norc", "-i"], "zsh": ["zsh", "-f", "-i"]}[shell]
begin = {"bash": "", "zsh": "autoload -U compinit; compinit -u -D; "}[shell]
environment = {
    "HOME": "/nonexistent", "TERM": "dumb", "LC_ALL": "C.UTF-8", "PS1": "ready> ", "PATH": f"{folder}:/usr/bin:/bin",
    "INPUTRC": "/dev/null",
}
child, terminal = pty.fork()
if child == 0:
    os.execvpe(arguments[0], arguments, environment)


def read(until):
    """What the shell prints until the pattern, or for as long as the limit."""
    seen, ends = "", time.monotonic() + LIMIT
    while not re.search(until, seen):
        if not select.select([terminal], [], [], max(0, ends - time.monotonic()))[0]:
            sys.exit(f"{shell} printed no {until!r}, but {seen!r}")
        seen += os.read(terminal, 65536).decode(errors="replace")
    return seen


def send(text):
    os.write(terminal, text.encode())


read("ready> ")
send(f"{begin}source {script}; echo sourc'ed'\n")
read("\nsourced")
for n, line in enumerate(sys.stdin.read().splitlines()):
    send(line + "\t")
    # The tab is answered before what is typed next.
    time.sleep(0.5)
    send(f"\x01printf '<%s>' BEGIN{n} \x05 'END'\n")
    words = read(rf"\n?<BEGIN{n}>.*<END>")
    print(re.search(rf"<BEGIN{n}>(.*)<END>", words).group(1))
send("exit\n")
