//go:build wasip1

// Package export_windlass_runtime_reconciler is where the generated bindings look for the guest's exports. The functions are
// set by package windlass, which imports the bindings, and so cannot be imported by them.
package export_windlass_runtime_reconciler

import (
	"windlass.dev/windlass/internal/bindings/windlass_runtime_client"
	"windlass.dev/windlass/internal/bindings/windlass_runtime_reconciler"
	"windlass.dev/windlass/internal/bindings/windlass_runtime_types"
	"windlass.dev/windlass/internal/wit/types"
)

// The exports.
var (
	Describe  func() types.Result[windlass_runtime_reconciler.Description, string]
	Reconcile func(
		windlass_runtime_types.Request, *windlass_runtime_client.Cluster,
	) types.Result[windlass_runtime_types.Action, windlass_runtime_types.Failure]
)
