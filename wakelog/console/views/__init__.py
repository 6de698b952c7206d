"""What pages say: a reading and its last hour in, rows and sentences out. Nothing here asks."""
