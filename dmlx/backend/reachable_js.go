package backend

// In a browser there are no plugins.
func reachable() bool { return false }
