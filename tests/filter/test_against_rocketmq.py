"""The language and the bloom filter against RocketMQ's own filter module."""

from random import Random
from typing import Any

import pytest

from tests.filter.bits import bitmap_of
from tests.filter.expressions import random_expression, random_properties
from tests.filter.oracle import ask
from wakelog.filter.bloom import BloomFilter
from wakelog.filter.errors import EvaluationFailed, IllegalExpression
from wakelog.filter.sql92 import compile_filter
from wakelog.filter.values import value_text

pytestmark = [pytest.mark.java, pytest.mark.slow]

EXPRESSIONS_COUNT = 3_000
PROPERTY_SETS_COUNT = 4
SEED = 493


def test_random_expressions_mean_what_they_mean_to_rocketmq() -> None:
    random = Random(SEED)
    questions: list[dict[str, Any]] = [
        {
            "expression": random_expression(random),
            "properties": [random_properties(random) for _ in range(PROPERTY_SETS_COUNT)],
        }
        for _ in range(EXPRESSIONS_COUNT)
    ]
    answers = ask(questions)
    differing = [
        (question, answer, ours)
        for question, answer in zip(questions, answers, strict=True)
        if (ours := _answer(question)) != answer
    ]
    assert not differing, f"{len(differing)} differ, the first: {differing[0]}"
    results = [result for answer in answers for result in answer["results"]]
    assert min(results.count(kind) for kind in ("true", "false", "null", "error")) > 100
    assert 300 < sum("remark" in answer for answer in answers) < EXPRESSIONS_COUNT - 1_200


def test_bloom_filters_of_all_sizes_set_the_bits_that_rocketmq_sets() -> None:
    random = Random(SEED)
    letters = "abcXYZ019_%#-\u00e9\u6d88\U0001f600"
    questions: list[dict[str, Any]] = [
        {
            "errorRate": error_percent,
            "count": random.choice((1, 2, 31, 32, 33, 64, 127, 1_000)),
            "names": ["".join(random.choices(letters, k=random.randrange(40))) for _ in range(20)],
        }
        for error_percent in range(1, 100)
    ]
    for question, answer in zip(questions, ask(questions), strict=True):
        bloom = BloomFilter(error_percent=question["errorRate"], names_count=question["count"])
        positions = [bloom.positions(name) for name in question["names"]]
        assert answer == {
            "hashCount": bloom.hash_count,
            "bitCount": bloom.bit_count,
            "positions": [list(each.bits) for each in positions],
            "bits": bitmap_of(positions, bloom.bit_count).hex(),
        }


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    try:
        compiled = compile_filter(question["expression"])
    except IllegalExpression as error:
        return {"remark": error.remark, "results": []}
    results = []
    for properties in question["properties"]:
        try:
            results.append(value_text(compiled.evaluate(properties)))
        except EvaluationFailed:
            results.append("error")
    return {"results": results}
