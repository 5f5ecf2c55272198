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
	return backend{cluster}, nil
}

func (h host) BatchAcross(clusters []string, operations []windlass.Operation) []windlass.Reply {
	h.t.Helper()
	replies := make([]windlass.Reply, len(operations))
	for i, operation := range operations {
		replies[i] = h.reply(clusters[i], operation)
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

// backend implements the API of a cluster with the script.
type backend struct{ *Cluster }

func (b backend) Name() string { return b.name }

func (b backend) Get(
	kind windlass.GroupVersionKind, key windlass.ObjectKey, options windlass.GetOptions,
) (string, bool, error) {
	b.script.t.Helper()
	call := b.take(windlass.Operation{Verb: windlass.VerbGet, Kind: kind, Key: key, Get: options})
	text, found := call.object()
	return text, found, call.failure()
}

func (b backend) List(kind windlass.GroupVersionKind, options windlass.ListOptions) (windlass.Page[string], error) {
	b.script.t.Helper()
	call := b.take(windlass.Operation{Verb: windlass.VerbList, Kind: kind, List: options})
	return call.page(), call.failure()
}

func (b backend) Create(kind windlass.GroupVersionKind, object string, options windlass.WriteOptions) (string, error) {
	b.script.t.Helper()
	return b.write(windlass.Operation{Verb: windlass.VerbCreate, Kind: kind, Text: object, Write: options})
}

func (b backend) Update(kind windlass.GroupVersionKind, object string, options windlass.WriteOptions) (string, error) {
	b.script.t.Helper()
	return b.write(windlass.Operation{Verb: windlass.VerbUpdate, Kind: kind, Text: object, Write: options})
}

func (b backend) Patch(
	kind windlass.GroupVersionKind, key windlass.ObjectKey, patchType windlass.PatchType, patch string,
	options windlass.WriteOptions,
) (string, error) {
	b.script.t.Helper()
	return b.write(windlass.Operation{
		Verb: windlass.VerbPatch, Kind: kind, Key: key, PatchType: patchType, Text: patch, Write: options,
	})
}

func (b backend) Apply(kind windlass.GroupVersionKind, object string, options windlass.ApplyOptions) (string, error) {
	b.script.t.Helper()
	return b.write(windlass.Operation{Verb: windlass.VerbApply, Kind: kind, Text: object, Apply: options})
}

func (b backend) Delete(kind windlass.GroupVersionKind, key windlass.ObjectKey, options windlass.DeleteOptions) error {
	b.script.t.Helper()
	return b.take(windlass.Operation{Verb: windlass.VerbDelete, Kind: kind, Key: key, Delete: options}).failure()
}

func (b backend) DeleteCollection(
	kind windlass.GroupVersionKind, selection windlass.Selection, options windlass.DeleteOptions,
) error {
	b.script.t.Helper()
	return b.script.take(b.name, windlass.Operation{Verb: VerbDeleteCollection, Kind: kind, Delete: options}, selection).failure()
}

func (b backend) RecordEvent(event windlass.Event) { b.events = append(b.events, event) }

func (b backend) Batch(operations []windlass.Operation) []windlass.Reply {
	b.script.t.Helper()
	replies := make([]windlass.Reply, len(operations))
	for i, operation := range operations {
		replies[i] = b.script.reply(b.name, operation)
	}
	return replies
}

func (b backend) take(operation windlass.Operation) *Call {
	b.script.t.Helper()
	return b.script.take(b.name, operation, windlass.Selection{})
}

func (b backend) write(operation windlass.Operation) (string, error) {
	b.script.t.Helper()
	call := b.take(operation)
	text, _ := call.object()
	return text, call.failure()
}
