"""The calling side of a channel: connect, ask, wait for the answer. It knows no processor.

Read ``client`` (addresses, connections, time limits), then ``call_channel`` (one socket and the
calls that wait on it), then ``errors``; ``signing`` is for brokers with access control, ``tls`` for
those with TLS.
"""
