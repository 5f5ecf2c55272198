//go:build !wasip1

package windlasstest

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"windlass.dev/windlass"
)

// ownerIndex is the index that [windlass.Dependents] declares, and the label that it is of.
const ownerIndex = "windlass.dev/owner"

// memoryHost implements the host of package windlass with a fleet.
type memoryHost struct{ *Fleet }

func (h memoryHost) Config() string {
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.config
}

func (h memoryHost) Now() string {
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.now.UTC().Format(time.RFC3339Nano)
}

func (h memoryHost) Log(level slog.Level, message string, fields []windlass.LogField) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.logs = append(h.logs, newLine(level, message, fields))
}

func (h memoryHost) Clusters(labelSelector string) ([]windlass.ClusterInfo, error) {
	h.t.Helper()
	h.lock.Lock()
	defer h.lock.Unlock()
	for name := range h.clusters {
		h.entered(name) // any run does
		return h.remote().Clusters(labelSelector)
	}
	return nil, nil
}

func (h memoryHost) Open(name string) (windlass.Backend, error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	cluster, ok := h.clusters[name]
	if !ok {
		message := fmt.Sprintf("this fleet has no cluster %q: the test names it with Fleet.Cluster", name)
		return nil, Error(windlass.CodeDenied, message)
	}
	return windlass.BackendOf(memoryCalls{cluster}), nil
}

func (h memoryHost) BatchAcross(clusters []string, operations []windlass.Operation) []windlass.Reply {
	replies := make([]windlass.Reply, len(operations))
	for i, operation := range operations {
		cluster, err := h.Open(clusters[i])
		if err != nil {
			replies[i] = windlass.Reply{Err: err}
			continue
		}
		replies[i] = cluster.Batch([]windlass.Operation{operation})[0]
	}
	return replies
}

// memoryCalls are the calls of a guest to a cluster of a fleet.
type memoryCalls struct{ *MemoryCluster }

func (c memoryCalls) Name() string { return c.name }

func (c memoryCalls) Run(operation windlass.Operation) windlass.Reply {
	c.fleet.t.Helper()
	return c.call(operation.Verb, func(remote windlass.RemoteCluster) windlass.Reply {
		switch operation.List.IndexName {
		case "":
		case ownerIndex:
			// Nothing is watched, so there are no indexes.
			operation.List.LabelSelector = ownerIndex + "=" + operation.List.IndexValue
			operation.List.IndexName, operation.List.IndexValue = "", ""
		default:
			message := fmt.Sprintf("a fleet of tests has no index %q: list by label, or use `windlass test`", operation.List.IndexName)
			return windlass.Reply{Err: Error(windlass.CodeInvalid, message)}
		}
		return remote.Run(operation)
	})
}

func (c memoryCalls) DeleteCollection(
	kind windlass.GroupVersionKind, selection windlass.Selection, options windlass.DeleteOptions,
) error {
	c.fleet.t.Helper()
	return c.call(VerbDeleteCollection, func(remote windlass.RemoteCluster) windlass.Reply {
		return windlass.Reply{Err: remote.DeleteCollection(kind, selection, options)}
	}).Err
}

func (c memoryCalls) RecordEvent(event windlass.Event) {
	c.fleet.lock.Lock()
	defer c.fleet.lock.Unlock()
	c.events = append(c.events, event)
}

// Batch counts each operation, and can fail it.
func (c memoryCalls) Batch(operations []windlass.Operation) []windlass.Reply {
	c.fleet.t.Helper()
	replies := make([]windlass.Reply, len(operations))
	for i, operation := range operations {
		replies[i] = c.Run(operation)
	}
	return replies
}

// call counts a call, and fails it if the test asked for it.
func (c memoryCalls) call(verb windlass.Verb, serve func(windlass.RemoteCluster) windlass.Reply) windlass.Reply {
	c.fleet.t.Helper()
	c.fleet.lock.Lock()
	defer c.fleet.lock.Unlock()
	c.calls = append(c.calls, verb)
	if at := slices.IndexFunc(c.failures, func(f failure) bool { return f.verb == verb }); at >= 0 {
		err := c.failures[at].err
		c.failures = slices.Delete(c.failures, at, at+1)
		return windlass.Reply{Err: err}
	}
	return serve(c.fleet.entered(c.name))
}
