"""HTML out of templates/. What is filled in may come from logs: it is escaped."""

import jinja2

from outlast import tree


def html(name: str, /, **values: object) -> str:
    """The template of that name with these values in it, which it must all be given."""
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(tree.root() / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return env.get_template(name).render(**values)
