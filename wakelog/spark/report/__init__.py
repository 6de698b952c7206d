"""The report: what a log tells of its traffic, as one HTML file with pictures.

    figures.py   a session and a store -> numbers, a few thousand at most
    scales.py    numbers and times -> places on an axis, and words beside it
    charts.py    numbers -> pictures, as SVG
    markup.py    elements and text -> HTML in which nothing is taken for markup that is none
    page.py      all of it -> the page

`jobs/report.py` is what a user calls.

Invariants: the page is whole in itself: no script, no picture, font or style from elsewhere.
"""
