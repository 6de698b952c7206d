"""What pages say: a snapshot and its last hour in, rows and sentences out. Nothing here asks."""
