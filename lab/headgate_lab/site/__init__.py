"""The documentation site: `script/docs` stages the pages of `docs/`, adds what is made from the code, and builds strictly.

`stage.py` copies pages and rewrites links that lead out of `docs/`. `api.py`, `commands.py` and `errors_page.py` make the
reference from docstrings, from the help of the commands and from the errors. `check.py` reads the site that was built:
links, anchors, and that nothing is loaded from elsewhere.
"""
