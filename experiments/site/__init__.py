"""One static page from all records: site/index.html, which needs no network and no server.

page.py         what stands where; `python -m experiments.site` writes it
html.py         blocks as HTML, with links to the records behind a table's rows
figures.py      figures as data that page.js draws, heat maps as tables of colours
style.css, page.js, sorter.js, idea.svg
"""
