"""An order service on FastStream: functions with typed arguments consume, publish and reply.

    python -m examples.faststream_orders      # beside a broker; NAME_SERVER says where

`tests/faststream/test_example.py` runs it in memory and beside a broker. Its types are checked from
outside, against the installed package, by `mypy --strict`.
"""

import asyncio
import os
from datetime import timedelta

from faststream import AckPolicy, FastStream
from pydantic import BaseModel

from wakelog.faststream import (
    AsyncAPI,
    RocketMQBroker,
    RocketMQMessage,
    RocketMQResponse,
    RocketMQRouter,
)


class Order(BaseModel):
    """What a customer orders."""

    number: int
    cents: int


class Bill(BaseModel):
    """What a customer pays."""

    order: int
    text: str


broker = RocketMQBroker(
    os.environ.get("NAME_SERVER", "127.0.0.1:9876"),
    bad_body="dead_letters",
    timeout=timedelta(seconds=3),
)
app = FastStream(broker, specification=AsyncAPI(title="Orders"))
router = RocketMQRouter(prefix="shop-")
totals: dict[str, int] = {}


@router.subscriber("orders", group_id="billing", tags="paid || late", ordered=True)
@router.publisher("bills")
async def bill(order: Order, message: RocketMQMessage) -> RocketMQResponse:
    """Write the bill of an order; the bills of a customer stay in order."""
    customer = message.headers["customer"]
    text = Bill(order=order.number, text=f"{customer} pays {order.cents / 100:.2f}")
    return RocketMQResponse(text, key=customer)


@router.subscriber("bills", group_id="totals", batch=True, max_records=100)
async def add(bills: list[Bill]) -> None:
    """Count bills by customer."""
    for each in bills:
        customer = each.text.partition(" ")[0]
        totals[customer] = totals.get(customer, 0) + 1


@router.subscriber("questions", group_id="answers", ack_policy=AckPolicy.REJECT_ON_ERROR)
async def answer(customer: str) -> int:
    """Reply how many bills a customer has."""
    return totals.get(customer, 0)


broker.include_router(router)


async def order_and_ask(customer: str) -> int:
    """Order something, and ask until it is counted."""
    before = totals.get(customer, 0)
    order, headers = Order(number=4711, cents=1950), {"customer": customer}
    receipt = await broker.publish(order, "shop-orders", tags="paid", key=customer, headers=headers)
    if receipt is not None:
        print(f"stored at {receipt.broker}, queue {receipt.queue_id}, {receipt.queue_offset}")
    while True:
        reply = await broker.request(customer, "shop-questions", timeout=5)
        count: int = await reply.decode()
        if count > before:
            return count
        await asyncio.sleep(0.05)


@app.after_startup
async def show() -> None:
    """Run once, and stop."""
    print(f"Ann has {await order_and_ask('Ann')} bill")
    app.exit()


if __name__ == "__main__":
    asyncio.run(app.run())
