//go:build !wasip1

// Package hook connects package mapper with package windlass, without an exported function for it.
package hook

// Mapper is the windlass.Mapper of this program; set by package mapper.
var Mapper any
