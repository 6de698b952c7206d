"""Where a setting comes from."""

from wakelog.console.views import settings
from wakelog.console.views.settings import BY_DEFAULT, CHOSEN, NOT_KNOWN, OF_HOST


def test_a_setting_of_a_broker_is_by_default_chosen_or_of_its_host() -> None:
    assert settings.broker_origin("fileReservedTime", "72") == BY_DEFAULT
    assert settings.broker_origin("fileReservedTime", "48") == CHOSEN
    assert settings.broker_origin("storePathRootDir", "/") == OF_HOST
    assert settings.broker_origin("noSuchKey", "1") == NOT_KNOWN


def test_name_servers_that_differ_were_set() -> None:
    assert settings.name_server_origin("listenPort", ["9876", "9876"]) == BY_DEFAULT
    assert settings.name_server_origin("listenPort", ["9876", "9877"]) == CHOSEN
    assert settings.name_server_origin("kvConfigPath", ["/x"]) == OF_HOST
