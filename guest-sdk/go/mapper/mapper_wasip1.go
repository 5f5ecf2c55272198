//go:build wasip1

package mapper

import (
	"windlass.dev/windlass"
	"windlass.dev/windlass/internal/bindings/windlass_runtime_client"
	"windlass.dev/windlass/internal/bindings/windlass_runtime_types"
	_ "windlass.dev/windlass/internal/bindings/wit_exports_mapper" // the export of the component
	exports "windlass.dev/windlass/internal/exports/export_windlass_runtime_mapper"
	"windlass.dev/windlass/internal/hook"
	"windlass.dev/windlass/internal/wit/types"
)

func init() {
	exports.MapObjects = func(
		*windlass_runtime_client.Cluster, windlass_runtime_types.GroupVersionKind, []string,
	) types.Result[[]windlass_runtime_types.Request, string] {
		return types.Err[[]windlass_runtime_types.Request]("there is no mapper: call mapper.Register in an init function")
	}
}

func register(m windlass.Mapper) {
	exports.MapObjects = func(
		cluster *windlass_runtime_client.Cluster, kind windlass_runtime_types.GroupVersionKind, objects []string,
	) types.Result[[]windlass_runtime_types.Request, string] {
		return hook.MapObjects(m, cluster, kind, objects)
	}
}
