"""Registers: where the brokers of one group agree on who is master.

A register keeps one small value for each group and replaces it by compare-and-set. It is an
existing engine: etcd, Kubernetes, or a locked file on one machine. No consensus is built here.

    register.py     what a register does, its errors, and how one is found by its address
    locked_file.py  file:///FOLDER
    etcd.py         etcd://HOST:PORT,HOST:PORT
    kubernetes.py   kubernetes://NAMESPACE/NAME
    json_calls.py   JSON over HTTP, and what is known when an answer does not come
"""
