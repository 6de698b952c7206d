"""What of the log is deleted and when: `retention` decides, `retention_files` deletes."""
