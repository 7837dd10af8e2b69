"""A small tree with a site of two queues, for tests of what is rendered from one."""

import os
import re
from pathlib import Path

from outlast import config, render, settings

INSTALL = settings.Install("/usr/bin/python3.11", "/opt/outlast/.venv/bin/python", "/opt/outlast")

SITE = """
name = "lake"
scheduler = "slurm"
summary = "a test"
hosts = ['lake[0-9]+']
account_required = true
ranks_per_node = 8
cores_per_node = 56
runs_dir = "/lus/{account}/{user}"
local_dir = "/mnt/bb/{user}"
local_is_disk = true
queue = "batch"
directives = ["--constraint=nvme"]
launch = ["--gpu-bind=closest"]

[queues.batch]
partition = "batch"
bins = [{ max_nodes = 91, walltime_s = 7200 }, { max_nodes = 183, walltime_s = 21600 }]

[queues.extended]
partition = "extended"
max_nodes = 64
walltime_s = 86400

[queues.debug]
partition = "batch"
qos = "debug"
chain = false
walltime_s = 7200
"""

JOB = """
summary = "a test"
nodes = 4
walltime_s = 3600
account = "ABC123"
preset = "hf"
command = "python3 train.py --output_dir {ckpt_dir} {resume}"
"""

TEMPLATE = """#!/bin/bash -l
{% for line in directives %}
#SBATCH {{ line }}
{% endfor %}
<# not for the reader #>
{{ settings }}
main() {
  printf '%s\\n' "${#OUTLAST_COMMAND[@]}"
}
{{ job_functions }}
{{ site_env() }}
{{ inline("log") }}
main "$@"
"""

LOG = """# shellcheck shell=bash
# lib/log.sh - one line a message
#
# Needs    nothing
ol_log_info() { printf '%s\\n' "$*" >&2; }
"""

SITE_ENV = """# shellcheck shell=bash
# sites/lake/env.sh - nothing
#
# Needs    nothing
ol_site_env() { :; }
"""


def make(root: Path, site: str = SITE, job: str = JOB, template: str = TEMPLATE) -> Path:
    """The root of a tree with the site lake and its job small."""
    write(root / "sites/lake/site.toml", site)
    write(root / "sites/lake/small.toml", job)
    write(root / "sites/lake/env.sh", SITE_ENV)
    write(root / "templates/slurm.sh.j2", template)
    write(root / "lib/log.sh", LOG)
    return root


def outside(folder: Path, name: str, summary: str = "a test") -> Path:
    """The folder, which now has a site of that name, like lake; its env.sh sets WHENCE."""
    text = SITE.replace('"lake"', f'"{name}"').replace('"a test"', f'"{summary}"')
    write(folder / name / "site.toml", text)
    write(folder / name / "small.toml", JOB)
    write(folder / name / "env.sh", SITE_ENV.replace("{ :; }", f"{{ export WHENCE={name}; }}"))
    return folder


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def outline(root: Path, folder: Path) -> Path:
    """A tree like root, in folder, whose lib files are two lines of their headers.

    Golden scripts are rendered from it: they show what is a job's own, and change when that does.
    """
    for name in ("templates", "sites"):
        (folder / name).symlink_to(root / name)
    for path in (root / "lib").glob("**/*.sh"):
        header = re.findall(r"^# (?:lib/|Needs ).*$", path.read_text(), re.M)
        write(folder / path.relative_to(root), "\n".join(header) + "\n")
    return folder


def golden(root: Path, site: str, job: str) -> str:
    """The script of a job of ours, the same on every machine."""
    asked = config.plan(root, site, job, Path(os.devnull), {"account": "ABC123"})
    return render.script(asked, root, INSTALL)


def plan(root: Path, *assignments: str, user: str = "") -> config.Plan:
    """The plan of the job small, with these KEY=VALUE on the command line and this user file."""
    file = write(root / "user.toml", user)
    return config.plan(root, "lake", "small", file, config.assignments(list(assignments)))
