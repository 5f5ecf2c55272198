// Package mapper lets a guest turn events into requests with its own code. A guest that imports it exports the contract's
// mapper, and must register one.
package mapper

import "windlass.dev/windlass"

// Register makes m the mapper of this program. Call it once, in an init function.
func Register(m windlass.Mapper) { register(m) }
