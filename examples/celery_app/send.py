"""Send a task, one for later, and a bill of many, and print what came of them."""

from celery import chord
from tasks import amount, bill  # type: ignore[import-not-found]  # beside it, when it is run


def main() -> None:
    """Wait for each result."""
    print("three:", amount.delay(120, 3).get(timeout=30))
    print("later:", amount.apply_async((80, 2), countdown=2).get(timeout=30))
    print("bill:", chord([amount.s(120, 3), amount.s(80, 2)], bill.s())().get(timeout=30))


if __name__ == "__main__":
    main()
