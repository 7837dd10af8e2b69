"""outlast preflight: a node's answers, by hand."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from outlast import preflight, site
from outlast.refused import Refused

ROOT = Path(__file__).parents[2]
OUTLAST = [str(ROOT / "bin/outlast"), "preflight"]


def a_site(folder: Path, node: str, modules: str = ":") -> list[str]:
    """Options for a site like `local` with this table of nodes."""
    home = folder / "sites/pond"
    home.mkdir(parents=True)
    facts = (ROOT / "sites/local/site.toml").read_text().partition("# Preflight")[0]
    (home / "site.toml").write_text(facts.replace('"local"', '"pond"', 1) + f"[node]\n{node}\n")
    (home / "env.sh").write_text(f"ol_site_modules() {{ {modules}; }}\nol_site_env() {{ :; }}\n")
    return ["pond", "--site-dir", str(folder / "sites")]


def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*OUTLAST, *words], env={**os.environ, **env}, capture_output=True, text=True, timeout=120)


def answers(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, str]]:
    return {row["check"]: row for row in json.loads(done.stdout)}


def test_this_machine_is_asked_what_makes_sense_here(tmp_path: Path) -> None:
    done = run("local", "--set", f"runs_dir={tmp_path}/not/yet")
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[0].split() == ["NODE", "CHECK", "ANSWER", "SEEN", "EXPECTED"]
    assert {line.split()[1] for line in lines[1:]} >= {"local_disk", "shared_fs", "memory", "clock"}
    assert str(tmp_path) in done.stdout
    assert "1 node: " in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_node_that_is_not_as_it_should_be_is_status_1(tmp_path: Path) -> None:
    done = run(*a_site(tmp_path, 'memory_gib = 1000000\nlocal_fs = ".*"'), "--json")
    assert done.returncode == 1
    memory = answers(done)["memory"]
    assert (memory["answer"], memory["ruled"], memory["expected"]) == ("bad", "site", "750000 GiB free")


def test_what_is_unknown_follows_the_sites_rule(tmp_path: Path) -> None:
    skip = '["gpu_count", "gpu_model", "gpu_xid", "gpu_memory", "gpu_remap"]'
    node = f'local_fs = ".*"\ngpu_tool = "nvidia-smi"\nskip = {skip}\n'
    root = tmp_path / "root"
    (root / "proc").mkdir(parents=True)
    words = a_site(tmp_path, node + '[node.unknown]\ngpu_ecc = "hold"')
    done = run(*words, "--json", OUTLAST_SYSROOT=str(root), PATH=f"{ROOT}/.venv/bin:/usr/bin:/bin")
    assert (answers(done)["gpu_ecc"]["answer"], answers(done)["gpu_ecc"]["ruled"]) == ("unknown", "hold")
    assert answers(done)["memory"]["ruled"] == "pass"
    assert done.returncode == 1


def test_a_module_that_loads_nothing_is_seen(tmp_path: Path) -> None:
    believes = "module() { LOADEDMODULES=rocm/7.1.1; export LOADEDMODULES; return 0; }"
    modules = f"{believes}; _load() {{ module load rocm; module load rccl/1; }}; "
    words = a_site(tmp_path, 'local_fs = ".*"', "_load")
    env = tmp_path / "sites/pond/env.sh"
    env.write_text(modules + "\n" + env.read_text())
    row = answers(run(*words, "--json"))["modules"]
    assert (row["answer"], row["seen"]) == ("unknown", "not in LOADEDMODULES: rccl/1")


def test_one_that_does_not_load_is_status_1(tmp_path: Path) -> None:
    done = run(*a_site(tmp_path, 'local_fs = ".*"', "return 1"), "--json")
    assert done.returncode == 1
    assert answers(done)["modules"]["seen"] == "one did not load"


def test_where_no_allocation_is_nobody_is_asked() -> None:
    env = {name: text for name, text in os.environ.items() if not name.startswith("SLURM")}
    done = subprocess.run([*OUTLAST, "slurm"], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "no allocation" in done.stderr


def test_a_job_of_another_site_is_refused() -> None:
    done = run("local", "--job", "nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_lines_that_are_no_answer_are_none() -> None:
    text = "n1\tmemory\tok\t1\t-\tok\nnoise\nn1\tclock\tok\n"
    assert [answer.check for answer in preflight.parse(text)] == ["memory"]


def test_the_table_says_whose_problem_it_is() -> None:
    rows = [
        preflight.Answer("n1", "memory", *words) for words in (("bad", "a", "b", "site"), ("unknown", "", "", "pass"))
    ]
    text = preflight.table(rows)
    assert "bad (site)" in text
    assert "unknown (pass)" in text


@pytest.mark.parametrize(
    ("node", "wrong"),
    [
        ('skip = ["gpu_cont"]', "did you mean gpu_count"),
        ('gpu_model = "A(100"', "no extended regular expression"),
        ('interfaces = ["hsn0 hsn1"]', "it takes names such as"),
        ('[node.unknown]\ngpu_ecc = "ask"', "one of pass, bad, hold"),
        ('gpu_tool = "gpustat"', "node.gpu_tool is one of"),
    ],
)
def test_a_table_of_nodes_that_is_wrong_is_refused(tmp_path: Path, node: str, wrong: str) -> None:
    a_site(tmp_path, node)
    with pytest.raises(Refused, match=wrong.replace("(", r"\(")):
        site.load(ROOT, "pond", (tmp_path / "sites",))


def test_the_checks_of_a_site_file_are_those_that_a_node_knows() -> None:
    text = (ROOT / "lib/nodejudge.sh").read_text()
    assert f'known = " {" ".join(site.CHECKS)} "' in text
