"""A whole job script from a plan. The one home of jinja2."""

import subprocess
import tempfile
from pathlib import Path

import jinja2

from outlast import directives, inline, job, queue, secrets, settings, tree, words
from outlast.config import Plan
from outlast.crash import patterns
from outlast.refused import Refused


def script(plan: Plan, root: Path, install: settings.Install) -> str:
    """The job script, parsed once by `bash -n`. Same inputs, same bytes.

    Raises: Refused: the site doesn't take the job, a value can't be rendered, or the result isn't Bash.
    """
    check(plan)
    directives.check_root(install.root, plan.site)
    text = filled(plan, root, install)
    parse(text)
    return text


def check(plan: Plan) -> None:
    """Nothing, if the site takes the job.

    Raises: Refused: it doesn't; the message says what to type.
    """
    asked = plan.job
    secrets.check(asked)  # first: other refusals repeat what was typed
    job.check(asked, plan.site, plan.preset)
    words.check(asked)
    _check_patterns(asked.crash.patterns)
    directives.check(asked, plan.site)
    if not plan.allocated:
        total = asked.nodes + asked.spares
        queue.check(plan.site, asked.queue, total, asked.walltime_s, asked.chain, asked.spares)


def _check_patterns(path: str) -> None:
    if path and (not path.startswith("/") or inline.CONTROL.search(path)):
        raise Refused(f"crash.patterns = {path!r} is no absolute path of a file; start it with /")
    try:
        if path:
            patterns.load(Path(path))
    except Refused as err:
        raise Refused(f"crash.patterns: {err}") from err


def filled(plan: Plan, root: Path, install: settings.Install) -> str:
    """The template of the site's scheduler with everything in it.

    Raises: Refused: no such template or lib file, a lib file without those it needs, an unknown name in the template.
    """
    copy = inline.Inliner(root)
    where = f"templates/{plan.site.scheduler}.sh.j2"
    try:
        text = (
            _environment(root)
            .get_template(Path(where).name)
            .render(
                site=plan.site,
                job=plan.job,
                install=install,
                settings=settings.block(plan, install),
                directives=settings.directives(plan),
                job_functions=settings.functions(plan),
                inline=copy,
                site_env=lambda: copy.copy(tree.short(root, plan.folder / "env.sh")),
            )
        )
    except jinja2.TemplateNotFound as err:
        raise Refused(f"{where} is missing: {plan.site.name} has scheduler {plan.site.scheduler!r}") from err
    except jinja2.TemplateSyntaxError as err:
        raise Refused(f"templates/{err.name}: line {err.lineno}: {err.message}") from err
    except jinja2.UndefinedError as err:
        raise Refused(f"{where}: {err.message}") from err
    copy.check()
    return text


def _environment(root: Path) -> jinja2.Environment:
    # Comments are <# #>: Jinja's own {# is Bash's ${#array[@]}.
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(root / "templates"),
        undefined=jinja2.StrictUndefined,
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def parse(text: str) -> None:
    """Nothing, if `bash -n` takes the text.

    Raises: Refused: it doesn't; the message has the line that it stops at.
    """
    with tempfile.TemporaryFile() as file:  # from a pipe Bash reads one byte at a time: ten times slower
        file.write(text.encode())
        file.seek(0)
        bash = subprocess.run(["bash", "-n"], stdin=file, capture_output=True, text=True, timeout=30, check=False)
    if bash.returncode:
        first = bash.stderr.strip().splitlines()[0].removeprefix("bash: ")
        raise Refused(f"the script is not valid Bash ({first}); look at setup, prepare and the template")
