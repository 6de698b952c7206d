"""What of the log is deleted, and when: `retention` decides, `retention_files` deletes.

A reader outside the broker keeps segments by a lease (`leases`), and gets a `snapshot`.
"""
