//go:build !wasip1

package windlasstest

import (
	"log/slog"
	"time"

	"windlass.dev/windlass"
)

// host implements the host of package windlass with the script.
type host struct{ *Script }

func (s *Script) host() windlass.Host { return host{s} }

func (h host) Config() string { return h.config }

func (h host) Now() string { return h.now.UTC().Format(time.RFC3339Nano) }

func (h host) Log(level slog.Level, message string, fields []windlass.LogField) {
	h.logs = append(h.logs, newLine(level, message, fields))
}

func (h host) Clusters(string) ([]windlass.ClusterInfo, error) { return h.infos, nil }

func (h host) Open(name string) (windlass.Backend, error) {
	h.t.Helper()
	if err, ok := h.refused[name]; ok {
		return nil, err
	}
	cluster, ok := h.clusters[name]
	if !ok {
		h.t.Fatalf("a cluster is opened that the script does not have: %q", name)
	}
	return windlass.BackendOf(calls{cluster}), nil
}

func (h host) BatchAcross(clusters []string, operations []windlass.Operation) []windlass.Reply {
	h.t.Helper()
	replies := make([]windlass.Reply, len(operations))
	for i, operation := range operations {
		replies[i] = h.reply(clusters[i], operation)
	}
	return replies
}

// calls implement the API of a cluster with the script.
type calls struct{ *Cluster }

func (c calls) Name() string { return c.name }

func (c calls) Run(operation windlass.Operation) windlass.Reply {
	c.script.t.Helper()
	return c.script.reply(c.name, operation)
}

func (c calls) DeleteCollection(
	kind windlass.GroupVersionKind, selection windlass.Selection, options windlass.DeleteOptions,
) error {
	c.script.t.Helper()
	return c.script.take(c.name, windlass.Operation{Verb: VerbDeleteCollection, Kind: kind, Delete: options}, selection).failure()
}

func (c calls) RecordEvent(event windlass.Event) { c.events = append(c.events, event) }

func (c calls) Batch(operations []windlass.Operation) []windlass.Reply {
	c.script.t.Helper()
	replies := make([]windlass.Reply, len(operations))
	for i, operation := range operations {
		replies[i] = c.Run(operation)
	}
	return replies
}

// reply answers an operation of a batch.
func (s *Script) reply(cluster string, operation windlass.Operation) windlass.Reply {
	s.t.Helper()
	call := s.take(cluster, operation, windlass.Selection{})
	switch {
	case call.err != nil:
		return windlass.Reply{Err: call.err}
	case operation.Verb == windlass.VerbList:
		page := call.page()
		return windlass.Reply{Page: &page}
	default:
		text, _ := call.object()
		return windlass.Reply{Text: text}
	}
}
