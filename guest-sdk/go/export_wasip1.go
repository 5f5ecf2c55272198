//go:build wasip1

package windlass

import (
	"windlass.dev/windlass/internal/bindings/windlass_runtime_client"
	"windlass.dev/windlass/internal/bindings/windlass_runtime_reconciler"
	"windlass.dev/windlass/internal/bindings/windlass_runtime_types"
	_ "windlass.dev/windlass/internal/bindings/wit_exports" // the exports of the component
	exports "windlass.dev/windlass/internal/exports/export_windlass_runtime_reconciler"
	"windlass.dev/windlass/internal/hook"
	"windlass.dev/windlass/internal/wit/runtime"
	"windlass.dev/windlass/internal/wit/types"
)

func init() {
	exports.Describe = exportDescribe
	exports.Reconcile = exportReconcile
	hook.MapObjects = func(
		mapper any, cluster *windlass_runtime_client.Cluster, kind windlass_runtime_types.GroupVersionKind, objects []string,
	) types.Result[[]windlass_runtime_types.Request, string] {
		return exportMapObjects(mapper.(Mapper), cluster, kind, objects)
	}
}

// Run serves a native build of a guest, from its main: see the native one. A component's main never runs.
func Run() {}

func exportDescribe() types.Result[windlass_runtime_reconciler.Description, string] {
	runtime.Entered()
	defer dropOpened()
	description, err := describe()
	if err != nil {
		return types.Err[windlass_runtime_reconciler.Description](wellFormed(err.Error()))
	}
	return types.Ok[windlass_runtime_reconciler.Description, string](lowerDescription(&description))
}

func exportReconcile(
	request windlass_runtime_types.Request, handle *windlass_runtime_client.Cluster,
) types.Result[windlass_runtime_types.Action, windlass_runtime_types.Failure] {
	runtime.Entered()
	defer dropOpened()
	defer handle.Drop()
	result, err := reconcile(Request{
		Cluster:   request.Cluster,
		ObjectKey: ObjectKey{Namespace: request.Key.Namespace.Some(), Name: request.Key.Name},
	}, NewCluster(hostCluster{handle}))
	if err != nil {
		message := wellFormed(err.Error())
		failure := windlass_runtime_types.MakeFailureRetry(message)
		if IsTerminal(err) {
			failure = windlass_runtime_types.MakeFailureTerminal(message)
		}
		return types.Err[windlass_runtime_types.Action](failure)
	}
	action := windlass_runtime_types.MakeActionDone()
	if millis, again := result.millis(); again {
		action = windlass_runtime_types.MakeActionRequeueAfterMs(millis)
	}
	return types.Ok[windlass_runtime_types.Action, windlass_runtime_types.Failure](action)
}

func exportMapObjects(
	mapper Mapper, handle *windlass_runtime_client.Cluster, kind windlass_runtime_types.GroupVersionKind, texts []string,
) types.Result[[]windlass_runtime_types.Request, string] {
	runtime.Entered()
	defer dropOpened()
	defer handle.Drop()
	requests, err := mapObjects(
		mapper, NewCluster(hostCluster{handle}), GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}, texts)
	if err != nil {
		return types.Err[[]windlass_runtime_types.Request](wellFormed(err.Error()))
	}
	lowered := make([]windlass_runtime_types.Request, len(requests))
	for i, request := range requests {
		lowered[i] = windlass_runtime_types.Request{Cluster: wellFormed(request.Cluster), Key: lowerKey(request.ObjectKey)}
	}
	return types.Ok[[]windlass_runtime_types.Request, string](lowered)
}

// dropOpened closes the clusters that the call opened.
func dropOpened() {
	for _, cluster := range opened {
		cluster.Drop()
	}
	opened = nil
}

func lowerDescription(description *Description) windlass_runtime_reconciler.Description {
	lowered := windlass_runtime_reconciler.Description{
		Title:   wellFormed(description.Title),
		Watches: make([]windlass_runtime_reconciler.Watch, len(description.Watches)),
		Indexes: make([]windlass_runtime_reconciler.Index, len(description.Indexes)),
		Options: lowerPairs(description.Options),
	}
	if primary, ok := description.primary(); ok {
		lowered.Primary = types.Some(lowerKind(primary))
	}
	for i, watch := range description.Watches {
		lowered.Watches[i] = windlass_runtime_reconciler.Watch{
			Kind: lowerKind(watch.Kind), Enqueue: lowerEnqueue(watch.Enqueue), Clusters: uint8(watch.Clusters),
			LabelSelector: optional(watch.LabelSelector), FieldSelector: optional(watch.FieldSelector),
			MetadataOnly: watch.MetadataOnly, Options: lowerPairs(watch.Options),
		}
		for _, change := range watch.Changes {
			lowered.Watches[i].Changes = append(lowered.Watches[i].Changes, uint8(change))
		}
	}
	for i, index := range description.Indexes {
		lowered.Indexes[i] = windlass_runtime_reconciler.Index{
			Kind: lowerKind(index.Kind), Name: wellFormed(index.Name), Path: wellFormed(index.Path),
			NamespacePath: optional(index.NamespacePath), Options: lowerPairs(index.Options),
		}
	}
	return lowered
}

func lowerEnqueue(enqueue Enqueue) windlass_runtime_reconciler.Enqueue {
	switch enqueue {
	case Primary:
		return windlass_runtime_reconciler.MakeEnqueuePrimary()
	case ControllerOwner:
		return windlass_runtime_reconciler.MakeEnqueueControllerOwner()
	case AnyOwner:
		return windlass_runtime_reconciler.MakeEnqueueAnyOwner()
	case SameName:
		return windlass_runtime_reconciler.MakeEnqueueSameName()
	case Mapped:
		return windlass_runtime_reconciler.MakeEnqueueMapped()
	default:
		return windlass_runtime_reconciler.MakeEnqueueByIndex(wellFormed(enqueue.index))
	}
}
