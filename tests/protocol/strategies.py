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
# A v4 address in v6 form is a v4 address to Java and comes back as one.
v6_hosts = st.tuples(
    st.ip_addresses(v=6).map(str).filter(lambda text: not text.startswith("::ffff:")), int32
)
hosts = st.one_of(v4_hosts, v6_hosts)
