//go:build !wasip1

package mapper

import "windlass.dev/windlass"

// register has nothing to do: a test calls its mapper itself.
func register(windlass.Mapper) {}
