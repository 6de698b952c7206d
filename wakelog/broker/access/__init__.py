"""Access control: who may ask a broker for what, as 4.9.3's plain ACL.

addresses.py reads patterns of addresses, accounts.py reads plain_acl.yml, control.py checks a
request by rules.py. question.py says what it would decide, edits.py changes the file.
administrators.py decides where there is no access control; failures.py counts.
"""
