"""Charts: one colour a topic, pauses cut out, an axis for each topic's latency."""

from tests.spark.report.figures import BEGIN_MS, some_figures
from wakelog.spark.report.charts import GREY, colours, lags, latencies, sizes, traffic
from wakelog.spark.report.figures import OTHERS, Interval, Waiting
from wakelog.spark.report.scales import HOUR_MS, MINUTE_MS


def test_a_topic_has_one_colour_in_all_charts() -> None:
    figures = some_figures()
    first, second = figures.shown
    waiting = [Waiting("mail", topic, BEGIN_MS, 7, 7) for topic in ("a small one", second, first)]
    figures = figures._replace(waiting=waiting)
    given = colours(figures)
    assert len({*given.values(), GREY}) == 4
    [mail] = lags(figures, ["billing", "mail"])
    assert list(mail.names)[1:] == [second, "a small one", first]
    assert [trace.marker.color for trace in mail.figure.data] == [
        given[second], given["a small one"], given[first],
    ]  # fmt: skip
    for chart in traffic(figures):
        found = [trace.marker.color for trace in chart.figure.data]
        assert found == [given[first], given[second], GREY]
    for chart in latencies(figures):
        assert {trace.line.color for trace in chart.figure.data} == {given.get(chart.name, GREY)}
    assert [chart.figure.data[0].marker.color for chart in sizes(figures)] == [
        given[first], given[second],
    ]  # fmt: skip


def test_the_longest_latency_flattens_nothing() -> None:
    chart = latencies(some_figures())[0]
    assert {trace.name: trace.visible for trace in chart.figure.data} == {
        "p50": True,
        "p99": True,
        "longest": "legendonly",
    }
    assert chart.figure.layout.yaxis.type is None  # linear
    assert chart.rows[0] == ("2026-01-01 00:00:00", "2 ms", "40 ms", "900 ms")


def test_long_pauses_are_cut_out_and_lines_broken() -> None:
    begins = [BEGIN_MS, BEGIN_MS + MINUTE_MS, BEGIN_MS + 3 * MINUTE_MS, BEGIN_MS + 9 * HOUR_MS]
    intervals = [Interval("orders", begin, 30, 300, 1, 2, 3) for begin in begins]
    [chart, _] = latencies(some_figures()._replace(intervals=intervals, waiting=[])) * 2
    [pause] = chart.figure.layout.xaxis.rangebreaks
    assert list(pause.bounds) == ["2026-01-01 00:05:00", "2026-01-01 08:59:00"]
    assert list(chart.figure.data[0].y) == [1, 1, None, 1, None, 1]
    assert len(chart.rows) == 4


def test_names_are_no_markup() -> None:
    [rate, _] = traffic(some_figures())
    assert [trace.name for trace in rate.figure.data] == [
        "orders", "&lt;b&gt;bold&lt;/b&gt;", "other topics",
    ]  # fmt: skip
    assert [each.topic for each in some_figures().intervals].count(OTHERS) == 3
