"""What of the log is deleted and when: `retention` decides, `retention_files` deletes.

Who reads segments from outside has them kept: `leases` decides for how long, `lease_file` remembers
it, and `snapshot` is what such a reader is handed.
"""
