"""Hooks of mkdocs, for the HTML of pages. Entry point: `on_page_content`.

Names in the code of references lead to their definitions. Long names in tables may break. Cells of wide tables name their column, so that a narrow
screen can show each row as a list (see assets/windlass.css).
"""

import re

ID = re.compile(r' id="([^"]+)"')
NAME = re.compile(r'<span class="(?:n\w?|kt)">(\w+)</span>')
TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
HEAD = re.compile(r"<th(?: [^>]*)?>(.*?)</th>", re.DOTALL)
ROW = re.compile(r"<tr>\s*<td.*?</tr>", re.DOTALL)
TAG = re.compile(r"<[^>]+>")
CODE = re.compile(r"<code>([^<]*)</code>")
MAY_BREAK = re.compile(r"(?<=[A-Za-z\]][./_])(?=[A-Za-z])")
# Also between the words of a name that is long.
MAY_BREAK_LONG = re.compile(MAY_BREAK.pattern + "|(?<=[a-z])(?=[A-Z])")
LONG = 30
# Columns of a table that is wide.
WIDE = 4


def on_page_content(html: str, page, **_) -> str:
    html = TABLE.sub(lambda table: of_table(table[0]), html)
    if not page.file.src_uri.startswith("reference/"):
        return html
    anchors = set(ID.findall(html))

    def link(match: re.Match[str]) -> str:
        return f'<a href="#{match[1]}">{match[0]}</a>' if match[1] in anchors else match[0]

    return NAME.sub(link, html)


def of_table(table: str) -> str:
    table = CODE.sub(breakable, table)
    heads = [TAG.sub("", head) for head in HEAD.findall(table)]
    if len(heads) < WIDE:
        return table

    def row(match: re.Match[str]) -> str:
        names = iter(heads)
        return re.sub(r"<td\b", lambda _: f'<td data-name="{next(names, "")}"', match[0])

    return ROW.sub(row, table).replace("<table>", "<table data-wide>", 1)


def breakable(code: re.Match[str]) -> str:
    places = MAY_BREAK_LONG if len(code[1]) > LONG else MAY_BREAK
    return f"<code>{places.sub('<wbr>', code[1])}</code>"
