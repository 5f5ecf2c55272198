//go:build wasip1

// Package export_windlass_runtime_reconciler is the export reconciler.
package export_windlass_runtime_reconciler

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"windlass.dev/windlass/internal/wit/types"
	client "windlass.dev/windlass/pinned/bindings/windlass_runtime_client"
	"windlass.dev/windlass/pinned/bindings/windlass_runtime_clock"
	"windlass.dev/windlass/pinned/bindings/windlass_runtime_config"
	"windlass.dev/windlass/pinned/bindings/windlass_runtime_fleet"
	"windlass.dev/windlass/pinned/bindings/windlass_runtime_log"
	contract "windlass.dev/windlass/pinned/bindings/windlass_runtime_reconciler"
	wit "windlass.dev/windlass/pinned/bindings/windlass_runtime_types"
)

var (
	configMap = wit.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	secret    = wit.GroupVersionKind{Version: "v1", Kind: "Secret"}
)

// Describe asks for ConfigMaps, whose colors are indexed, and for Secrets, which are mapped.
func Describe() types.Result[contract.Description, string] {
	ask := types.Some("contract.windlass.dev/ask")
	return types.Ok[contract.Description, string](contract.Description{
		Title:   "a guest of the contract 0.1.0",
		Primary: types.Some(configMap),
		Watches: []contract.Watch{
			{Kind: configMap, Enqueue: contract.MakeEnqueueControllerOwner()},
			{Kind: secret, Enqueue: contract.MakeEnqueueMapped(), LabelSelector: ask, MetadataOnly: true},
		},
		Indexes: []contract.Index{{Kind: configMap, Name: "color", Path: "data.color"}},
	})
}

// Reconcile tries again what an api-error that is not expected ends.
func Reconcile(request wit.Request, cluster *client.Cluster) types.Result[wit.Action, wit.Failure] {
	defer cluster.Drop()
	reading := client.GetOptions{Mode: client.ReadModeCached, Projection: client.ProjectionFull}
	found := cluster.Get(configMap, request.Key, reading)
	if found.IsErr() {
		return retry(found.Err())
	}
	if !found.Ok().IsSome() {
		return types.Err[wit.Action](wit.MakeFailureTerminal("there is no " + request.Key.Name))
	}
	if failed := run(cluster, request.Key); failed != nil {
		return retry(*failed)
	}
	return types.Ok[wit.Action, wit.Failure](wit.MakeActionRequeueAfterMs(60_000))
}

func retry(err wit.ApiError) types.Result[wit.Action, wit.Failure] {
	return types.Err[wit.Action](wit.MakeFailureRetry(err.Message))
}

// run is all that a reconcile does where the object is there.
func run(cluster *client.Cluster, key wit.ObjectKey) *wit.ApiError {
	listed := cluster.List(configMap, client.ListOptions{
		Namespace: key.Namespace,
		Index:     types.Some(types.Tuple2[string, string]{F0: "color", F1: "red"}),
		Mode:      client.ReadModeCached,
	})
	if listed.IsErr() {
		return failed(listed.Err())
	}

	made := wit.ObjectKey{Namespace: key.Namespace, Name: key.Name + "-made"}
	created := cluster.Create(configMap, object(made, json.RawMessage(windlass_runtime_config.Get())), client.WriteOptions{})
	if created.IsErr() && created.Err().Code != wit.ApiCodeAlreadyExists {
		return failed(created.Err())
	}
	patched := cluster.Patch(configMap, made, client.PatchTypeMerge, `{"data": {"patched": "yes"}}`, client.WriteOptions{})
	if patched.IsErr() {
		return failed(patched.Err())
	}

	absent := uint16(200)
	deleted := cluster.Delete(configMap, wit.ObjectKey{Namespace: key.Namespace, Name: "absent"}, client.DeleteOptions{})
	if deleted.IsErr() {
		if deleted.Err().Code != wit.ApiCodeNotFound {
			return failed(deleted.Err())
		}
		absent = deleted.Err().HttpStatus
	}

	reading := types.Tuple3[wit.GroupVersionKind, wit.ObjectKey, client.GetOptions]{
		F0: configMap, F1: made, F2: client.GetOptions{Mode: client.ReadModeLive},
	}
	replies := cluster.Batch([]client.Operation{client.MakeOperationGet(reading)})
	read := len(replies) == 1 && !replies[0].IsErr() && replies[0].Ok().Tag() == client.ReplyObject &&
		strings.Contains(replies[0].Ok().Object(), "patched")

	clusters := windlass_runtime_fleet.Clusters(types.None[string]())
	if clusters.IsErr() {
		return failed(clusters.Err())
	}
	var names []string
	for _, info := range clusters.Ok() {
		names = append(names, info.Name)
	}
	opened := windlass_runtime_fleet.Open(strings.Join(names, " "))
	if opened.IsErr() {
		return failed(opened.Err())
	}
	defer opened.Ok().Drop()

	seen := object(wit.ObjectKey{Namespace: key.Namespace, Name: key.Name + "-seen"}, map[string]string{
		"red":      strconv.Itoa(len(listed.Ok().Items)),
		"absent":   fmt.Sprint(absent),
		"read":     fmt.Sprint(read),
		"clusters": strings.Join(names, " "),
		"opened":   opened.Ok().Name(),
		"now":      strconv.Itoa(len(windlass_runtime_clock.Now())),
	})
	applied := cluster.Apply(configMap, seen, client.ApplyOptions{Force: true})
	if applied.IsErr() {
		return failed(applied.Err())
	}
	cluster.RecordEvent(client.Event{
		Kind: configMap, Key: key, EventType: client.EventTypeNormal,
		Reason: "Seen", Action: "Reconcile", Note: "a guest of the contract 0.1.0 was here",
	})
	windlass_runtime_log.Write(windlass_runtime_log.LevelInfo, "seen", []types.Tuple2[string, string]{{F0: "name", F1: key.Name}})
	return nil
}

func failed(err wit.ApiError) *wit.ApiError { return &err }

func object(key wit.ObjectKey, data any) string {
	metadata := map[string]string{"namespace": key.Namespace.Some(), "name": key.Name}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
	if err != nil {
		panic(err)
	}
	return string(text)
}
