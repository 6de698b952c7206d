"""Actions on name servers: their settings, the values they keep, and the order of topics.

Each of them goes to every name server.
"""

from typing import Final

from wakelog.client.admin import Admin
from wakelog.console.actions.action import Action, Field, Values, Words
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"

NAMESPACE: Final = Field("namespace", "Namespace")
KEY: Final = Field("key", "Key")
VALUE: Final = Field("value", "Value")
TOPIC: Final = Field("topic", "Topic")
_VALUES: Final = "/name-servers?tab=values&namespace={namespace}"
_ORDERS: Final = "/name-servers?tab=values"


def _change(values: Values) -> Words:
    return ["admin", "updateNamesrvConfig", "-k", values["key"], "-v", values["value"]]


async def _before_change(admin: Admin, values: Values) -> list[str]:
    key, found = values["key"], []
    for address in admin.options.name_servers:
        settings = await admin.settings(address, Code.GET_NAMESRV_CONFIG)
        now = settings.get(key)
        text = "shows no such key" if now is None else f"has {now or 'nothing'} now"
        found.append(f"{address} {text}, and will have {key}={values['value']}")
    return found


def _set(values: Values) -> Words:
    words = ["admin", "updateKvConfig", "-s", values["namespace"]]
    return [*words, "-k", values["key"], "-v", values["value"]]


async def _before_set(admin: Admin, values: Values) -> list[str]:
    return [await _now(admin, values["namespace"], values["key"]), _servers(admin)]


def _delete(values: Values) -> Words:
    return ["admin", "deleteKvConfig", "-s", values["namespace"], "-k", values["key"]]


def _set_order(values: Values) -> Words:
    words = ["admin", "updateOrderConf", "-t", values["topic"]]
    return [*words, "-m", "put", "-v", values["order"]]


async def _before_order(admin: Admin, values: Values) -> list[str]:
    topic = values["topic"]
    route = await admin.routes.find(topic)
    queues = {} if route is None else {x.broker_name: x.write_queue_nums for x in route.queue_datas}
    has = ", ".join(f"{name}:{count}" for name, count in sorted(queues.items()))
    return [
        await _now(admin, ORDER_NAMESPACE, topic),
        f"the topic has these queues now: {has or 'none'}",
        "clients keep to the brokers of the order, also while one of them is away, if "
        "orderMessageEnable=true at the name servers",
        _servers(admin),
    ]


def _delete_order(values: Values) -> Words:
    return ["admin", "updateOrderConf", "-t", values["topic"], "-m", "delete"]


async def _now(admin: Admin, namespace: str, key: str) -> str:
    response = await admin.ask_name_server(
        Code.GET_KV_CONFIG,
        {"namespace": namespace, "key": key},
        allowed=(ResponseCode.QUERY_NOT_FOUND,),
    )
    if response.code != ResponseCode.SUCCESS:
        return f"{key} has no value now"
    return f"{key} is {response.ext_fields.get('value') or 'empty'} now"


def _servers(admin: Admin) -> str:
    count = len(admin.options.name_servers)
    return f"it is changed at {'1 name server' if count == 1 else f'{count:,} name servers'}"


ACTIONS: Final[tuple[Action, ...]] = (
    Action(
        "change-name-server-setting",
        "Change setting of name servers",
        (KEY, VALUE),
        _change,
        "/name-servers?tab=settings",
        _before_change,
    ),
    Action("set-value", "Set value", (NAMESPACE, KEY, VALUE), _set, _VALUES, _before_set),
    Action(
        "delete-value",
        "Delete value",
        (NAMESPACE, KEY),
        _delete,
        _VALUES,
        _before_set,
        typed="key",
    ),
    Action(
        "set-order",
        "Set order",
        (TOPIC, Field("order", "Brokers and queues", help="broker-a:4;broker-b:4")),
        _set_order,
        _ORDERS,
        _before_order,
        does="An ordered topic keeps its queues while one of these brokers is away.",
    ),
    Action(
        "delete-order",
        "Delete order",
        (TOPIC,),
        _delete_order,
        _ORDERS,
        _before_order,
        typed="topic",
    ),
)
