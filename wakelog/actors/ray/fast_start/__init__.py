"""Starting Ray in 2 s instead of 7: everything here depends on private parts of Ray."""
