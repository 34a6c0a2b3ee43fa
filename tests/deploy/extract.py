"""Prints what other programs check: one item a line, or files in a folder.

extract.py commands FILE...    the commands of gpusetup in documents, scripts, user-data and templates
extract.py scripts DIR FILE... the scripts in workflows, one file each in DIR
extract.py config FILE         the configuration of gpusetup in user-data
"""

import pathlib
import re
import sys

from ruamel.yaml import YAML


# What documents write for a value that the program looks at.
PLACEHOLDERS = {"URL": "https://example.com/gpusetup", "SUM": "0" * 64}


def commands_of_markdown(text):
    """As tests/black_box/book.rs has it: after prompts of consoles, in blocks of a shell, and in text between backticks."""
    block = None
    for line in text.splitlines():
        fence = line.lstrip().removeprefix("```") if line.lstrip().startswith("```") else None
        if fence is not None:
            block = fence if block is None else None
        elif block is None:
            yield from line.split("`")[1::2]
        elif block == "sh":
            yield line
        elif block == "console" and re.match(r"\S*[$#] ", line):
            yield line.split(" ", 1)[1]
        elif block == "hcl":
            yield from re.findall(r'"([^"]*\bgpusetup [^"]*)"', line)


def lists_of(value):
    """All lists of texts in a document, as `runcmd` has them."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from lists_of(inner)
    elif isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            yield " ".join(f'"{item}"' if " " in item or not item else item for item in value)
        for inner in value:
            yield from lists_of(inner)


def commands_of(path):
    text = path.read_text()
    if path.suffix == ".md":
        lines = commands_of_markdown(text)
    elif path.suffix in (".yaml", ".yml"):
        lines = [*lists_of(YAML(typ="safe").load(text)), *re.findall(r"`([^`\n]*)`", text)]
    elif path.suffix in (".hcl", ".tf"):
        # ["gpusetup", "apply"] and "gpusetup apply" alike.
        lists = re.findall(r'\["(gpusetup"(?:, "[^"]*")*)\]', text)
        lines = [item.replace('", "', " ").rstrip('"') for item in lists]
        # A description goes on after the command that it begins with.
        lines += [line.split(" shows ")[0] for line in re.findall(r'"((?:sudo )?gpusetup [^"]*)"', text)]
    else:
        # Scripts and Containerfiles: a command stands at the start of a line, or after another one.
        lines = []
        for line in text.splitlines():
            line = line.strip()
            lines += [line] if not line.startswith("#") else re.findall(r"`([^`]*)`", line)
    for line in lines:
        for piece in re.split(r"[|;]|&&", line):
            # What comes before the program: a privilege, a path, an environment.
            found = re.match(r'(?:ExecStart=)?(?:/usr/bin/env |sudo (?:-n )?(?:env "?PATH=\S+ )?)*gpusetup (.*)', piece.strip())
            if found:
                command = re.sub(r"\s*(\\|>.*| # .*)$", "", found[1]).strip()
                for word, example in PLACEHOLDERS.items():
                    command = re.sub(rf"\b{word}\b", example, command)
                yield command


def main():
    what, *arguments = sys.argv[1:]
    if what == "commands":
        for name in arguments:
            for command in dict.fromkeys(commands_of(pathlib.Path(name))):
                # What stands for a command, and what only begins a sentence.
                if re.match(r"[a-z]", command) and not re.match(r"(in|is|to|on|of|for|from|and|as|has|that) ", command):
                    print(f"{name}\t{command}")
    elif what == "scripts":
        folder = pathlib.Path(arguments[0])
        for name in arguments[1:]:
            workflow = YAML(typ="safe").load(pathlib.Path(name).read_text())
            for job, content in workflow["jobs"].items():
                for at, step in enumerate(content["steps"]):
                    if "run" in step:
                        script = "#!/bin/bash\nset -eo pipefail\n" + step["run"]
                        (folder / f"{pathlib.Path(name).stem}.{job}.{at}").write_text(script)
    elif what == "config":
        user_data = YAML(typ="safe").load(pathlib.Path(arguments[0]).read_text())
        files = {file["path"]: file["content"] for file in user_data["write_files"]}
        print(files["/etc/gpusetup/config.yaml"], end="")


main()
