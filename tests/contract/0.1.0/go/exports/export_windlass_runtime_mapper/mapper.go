//go:build wasip1

// Package export_windlass_runtime_mapper is the export mapper.
package export_windlass_runtime_mapper

import (
	"fmt"

	"windlass.dev/windlass/internal/wit/types"
	client "windlass.dev/windlass/pinned/bindings/windlass_runtime_client"
	wit "windlass.dev/windlass/pinned/bindings/windlass_runtime_types"
)

// MapObjects has every Secret ask for the same.
func MapObjects(cluster *client.Cluster, kind wit.GroupVersionKind, objects []string) types.Result[[]wit.Request, string] {
	defer cluster.Drop()
	if kind.Kind != "Secret" || len(objects) == 0 {
		return types.Err[[]wit.Request](fmt.Sprintf("%d %s", len(objects), kind.Kind))
	}
	key := wit.ObjectKey{Namespace: types.Some("default"), Name: "case"}
	return types.Ok[[]wit.Request, string]([]wit.Request{{Cluster: cluster.Name(), Key: key}})
}
