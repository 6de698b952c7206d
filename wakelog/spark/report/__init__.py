"""The report: the traffic in a log as one HTML page that opens offline.

    figures.py    a session and a store -> numbers, a few thousand at most
    attention.py  numbers -> sentences about what needs attention
    charts.py     numbers -> charts, by plotly
    page.py       all of it -> the page
    scales.py     how times, sizes and durations are written

`jobs/report.py` is the entry.
"""
