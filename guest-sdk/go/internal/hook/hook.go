//go:build wasip1

// Package hook connects package mapper with package windlass, without an exported function for it.
package hook

import (
	"windlass.dev/windlass/internal/bindings/windlass_runtime_client"
	"windlass.dev/windlass/internal/bindings/windlass_runtime_types"
	"windlass.dev/windlass/internal/wit/types"
)

// MapObjects runs a windlass.Mapper; set by package windlass.
var MapObjects func(
	mapper any, cluster *windlass_runtime_client.Cluster, kind windlass_runtime_types.GroupVersionKind, objects []string,
) types.Result[[]windlass_runtime_types.Request, string]
