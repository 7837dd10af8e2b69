"""qsub: hand a job to the server; its id on stdout."""

from __future__ import annotations

import getopt
import sys
from pathlib import Path
from typing import Any

from standin import client, submission, times
from standin.codes import Refused
from standin.submission import Options, Wrong

ATTRIBUTES = {
    "-A": "Account_Name",
    "-e": "Error_Path",
    "-j": "Join_Path",
    "-k": "Keep_Files",
    "-m": "Mail_Points",
    "-M": "Mail_Users",
    "-N": "Job_Name",
    "-o": "Output_Path",
    "-R": "Remove_Files",
    "-S": "Shell_Path_List",
    "-q": "queue",
}


def read_script(operands: list[str]) -> tuple[str, str]:
    """Text and name of the script. Raises: Wrong: it cannot be read."""
    if not operands or operands[0] == "-":
        return sys.stdin.read(), "STDIN"
    path = Path(operands[0])
    if not path.exists():
        raise Wrong(1, "qsub: script file:: No such file or directory")
    if not path.is_file():
        raise Wrong(1, "qsub: script not a file")
    return path.read_bytes().decode(errors="surrogateescape"), path.name


def attributes(options: Options, name: str) -> dict[str, Any]:
    """As `qstat -f` shows them."""
    single = options.single
    found: dict[str, Any] = {"Job_Name": name, "Join_Path": "n", "Keep_Files": "n", "Mail_Points": "a", "Priority": 0}
    found.update({attribute: single[option] for option, attribute in ATTRIBUTES.items() if option in single})
    found["Rerunable"] = "False" if single.get("-r") == "n" else "True"
    if "-p" in single:
        found["Priority"] = int(single["-p"])
    if "-a" in single:
        found["Execution_Time"] = int(times.begin(single["-a"]) or 0)
    if "umask" in options.words:
        found["umask"] = f"{int(options.words['umask'], 8):o}"
    for word in ("depend", "tolerate_node_failures"):
        if word in options.words:
            found[word] = options.words[word]
    return found


def submit(words: list[str]) -> str:
    """The new job's id. Raises: Wrong; Refused; getopt.GetoptError."""
    options = Options()
    operands = options.read(words)
    argv = words[words.index("--") + 1 :] if "--" in words else []
    script, name = ("", "STDIN") if argv else read_script(operands)
    for line in submission.directives(script):
        options.read(line)
    host = client.host()
    answer = client.ask(
        "submit",
        host=host,
        attributes={**attributes(options, name), "Submit_arguments": " ".join(words)},
        resources=options.resources,
        environment=submission.environment(options, "", host),
        script=script,
        argv=argv,
        held="-h" in options.single,
    )
    if answer.get("code"):
        raise Refused(answer["code"], answer["text"])
    return str(answer["job"])


def main(words: list[str]) -> int:
    try:
        print(submit(words))
    except getopt.GetoptError as err:
        print(f"{submission.unknown_letters(words, err)}{submission.USAGE}", file=sys.stderr)
        return 2
    except Wrong as wrong:
        print(wrong.text, file=sys.stderr)
        return wrong.status
    except Refused as refused:
        print(f"qsub: {refused.text}", file=sys.stderr)
        return refused.code & 255
    return 0
