"""What a group is given that admits none without a certificate and an account."""

from pathlib import Path

from tests.actors.replicas import guarded
from tests.network.test_tls import CLIENT, FILES, SERVER, SERVER_KEY, SIGNER
from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls

CLIENT_KEY = str(FILES / "client_without_password.key")
KNOWN = Tls(SIGNER, CLIENT, CLIENT_KEY)
APPLICATION = Credentials("application-key", "application-secret")
OPERATOR = Credentials("replica-key", "replica-secret")

ACCOUNTS = f"""
globalWhiteRemoteAddresses: []
accounts:
- {{accessKey: {OPERATOR.access_key}, secretKey: {OPERATOR.secret_key}, admin: true}}
- accessKey: {APPLICATION.access_key}
  secretKey: {APPLICATION.secret_key}
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: PUB|SUB
"""


def guarded_settings(folder: Path) -> dict[str, str]:
    """Write accounts and the file of TLS; return the settings of each replica."""
    accounts = guarded(folder / "home", ACCOUNTS)
    file = tls_file(folder)
    file.write_text(
        "tls.test.mode.enable=false\n"
        f"tls.server.certPath={SERVER}\ntls.server.keyPath={SERVER_KEY}\n"
        "tls.server.need.client.auth=require\ntls.server.authClient=true\n"
        f"tls.server.trustCertPath={SIGNER}\n"
        f"tls.client.authServer=true\ntls.client.trustCertPath={SIGNER}\n"
        f"tls.client.certPath={CLIENT}\ntls.client.keyPath={CLIENT_KEY}\n"
    )
    return {
        **accounts,
        "wakelog.accessKey": OPERATOR.access_key,
        "tls.server.mode": "enforcing",
        "tls.config.file": str(file),
    }


def tls_file(folder: Path) -> Path:
    """Return where the settings of TLS are."""
    return folder / "tls.properties"
