//go:build wasip1

// Package export_windlass_runtime_mapper is where the generated bindings look for the mapper's export. The function is set by
// package mapper.
package export_windlass_runtime_mapper

import (
	"windlass.dev/windlass/internal/bindings/windlass_runtime_client"
	"windlass.dev/windlass/internal/bindings/windlass_runtime_types"
	"windlass.dev/windlass/internal/wit/types"
)

// MapObjects is the export.
var MapObjects func(
	*windlass_runtime_client.Cluster, windlass_runtime_types.GroupVersionKind, []string,
) types.Result[[]windlass_runtime_types.Request, string]
