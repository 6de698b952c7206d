"""Actions on name servers: their settings, the values they keep, and the order of topics.

Each of them goes to every name server.
"""

from typing import Final

from wakelog.client.admin import Admin
from wakelog.console.actions.action import Action, Field, Values, words_of
from wakelog.console.quantities import counted
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.names import ORDER_NAMESPACE

NAMESPACE: Final = Field("namespace", "Namespace")
KEY: Final = Field("key", "Key")
VALUE: Final = Field("value", "Value")
TOPIC: Final = Field("topic", "Topic")
_VALUES: Final = "/name-servers?tab=values&namespace={namespace}"
_ORDERS: Final = "/name-servers?tab=values"


async def _before_change(admin: Admin, values: Values) -> list[str]:
    key, found = values["key"], []
    for address in admin.options.name_servers:
        settings = await admin.settings(address, Code.GET_NAMESRV_CONFIG)
        now = settings.get(key)
        text = "shows no such key" if now is None else f"has {now or 'nothing'} now"
        found.append(f"{address} {text}, and will have {key}={values['value']}")
    return found


async def _before_set(admin: Admin, values: Values) -> list[str]:
    return [await _now(admin, values["namespace"], values["key"]), _changed_at(admin)]


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
        _changed_at(admin),
    ]


async def _now(admin: Admin, namespace: str, key: str) -> str:
    response = await admin.ask_name_server(
        Code.GET_KV_CONFIG,
        {"namespace": namespace, "key": key},
        allowed=(ResponseCode.QUERY_NOT_FOUND,),
    )
    if response.code != ResponseCode.SUCCESS:
        return f"{key} has no value now"
    return f"{key} is {response.ext_fields.get('value') or 'empty'} now"


def _changed_at(admin: Admin) -> str:
    return f"it is changed at {counted(len(admin.options.name_servers), 'name server')}"


ACTIONS: Final[tuple[Action, ...]] = (
    Action(
        "change-name-server-setting",
        "Change setting of name servers",
        (KEY, VALUE),
        words_of("admin updateNamesrvConfig -k {key} -v {value}"),
        "/name-servers?tab=settings",
        _before_change,
    ),
    Action(
        "set-value",
        "Set value",
        (NAMESPACE, KEY, VALUE),
        words_of("admin updateKvConfig -s {namespace} -k {key} -v {value}"),
        _VALUES,
        _before_set,
    ),
    Action(
        "delete-value",
        "Delete value",
        (NAMESPACE, KEY),
        words_of("admin deleteKvConfig -s {namespace} -k {key}"),
        _VALUES,
        _before_set,
        typed="key",
    ),
    Action(
        "set-order",
        "Set order",
        (TOPIC, Field("order", "Brokers and queues", help="broker-a:4;broker-b:4")),
        words_of("admin updateOrderConf -t {topic} -m put -v {order}"),
        _ORDERS,
        _before_order,
        does="An ordered topic keeps its queues while one of these brokers is away.",
    ),
    Action(
        "delete-order",
        "Delete order",
        (TOPIC,),
        words_of("admin updateOrderConf -t {topic} -m delete"),
        _ORDERS,
        _before_order,
        typed="topic",
    ),
)
