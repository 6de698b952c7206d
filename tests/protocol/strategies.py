"""What hypothesis may put into messages."""

from hypothesis import strategies as st

texts = st.text(max_size=20)
names = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=12
)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
ext_fields = st.dictionaries(texts, texts, max_size=6)
v4_hosts = st.tuples(st.ip_addresses(v=4).map(str), int32)
v6_hosts = st.tuples(
    st.ip_addresses(v=6).filter(lambda address: address.ipv4_mapped is None).map(str), int32
)
hosts = st.one_of(v4_hosts, v6_hosts)
