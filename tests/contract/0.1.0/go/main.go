//go:build wasip1

// A guest of the contract 0.1.0 in Go, on bindings of the pinned WIT; what it does is told in ../README.md. The bindings look for
// its code below exports; the memory that they stand on is the SDK's.
package main

import (
	_ "windlass.dev/windlass/pinned/bindings/wit_exports"
	_ "windlass.dev/windlass/pinned/bindings/wit_exports_mapper"
)

func main() {}
