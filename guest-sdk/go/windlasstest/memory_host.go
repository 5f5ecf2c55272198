//go:build !wasip1

package windlasstest

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"windlass.dev/windlass"
)

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
	h.lock.Lock()
	defer h.lock.Unlock()
	selects, err := parseLabels(labelSelector)
	if err != nil {
		return nil, err
	}
	infos := []windlass.ClusterInfo{}
	for _, name := range slices.Sorted(maps.Keys(h.clusters)) {
		labels := maps.Clone(h.clusters[name].labels)
		if selects(labels) {
			infos = append(infos, windlass.ClusterInfo{
				Name: name, Labels: labels, Properties: map[string]string{}, Ready: true,
			})
		}
	}
	return infos, nil
}

func (h memoryHost) Open(name string) (windlass.Backend, error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	cluster, ok := h.clusters[name]
	if !ok {
		message := fmt.Sprintf("this fleet has no cluster %q: the test names it with Fleet.Cluster", name)
		return nil, Error(windlass.CodeDenied, message)
	}
	return memoryBackend{cluster}, nil
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

// memoryBackend implements the API of a cluster with what is in memory.
type memoryBackend struct{ *MemoryCluster }

func (b memoryBackend) Name() string { return b.name }

func (b memoryBackend) Get(
	kind windlass.GroupVersionKind, key windlass.ObjectKey, options windlass.GetOptions,
) (string, bool, error) {
	reply := b.run(windlass.Operation{Verb: windlass.VerbGet, Kind: kind, Key: key, Get: options})
	return reply.Text, reply.Text != "", reply.Err
}

func (b memoryBackend) List(
	kind windlass.GroupVersionKind, options windlass.ListOptions,
) (windlass.Page[string], error) {
	reply := b.run(windlass.Operation{Verb: windlass.VerbList, Kind: kind, List: options})
	if reply.Err != nil {
		return windlass.Page[string]{}, reply.Err
	}
	return *reply.Page, nil
}

func (b memoryBackend) Create(
	kind windlass.GroupVersionKind, object string, options windlass.WriteOptions,
) (string, error) {
	return b.write(windlass.Operation{Verb: windlass.VerbCreate, Kind: kind, Text: object, Write: options})
}

func (b memoryBackend) Update(
	kind windlass.GroupVersionKind, object string, options windlass.WriteOptions,
) (string, error) {
	return b.write(windlass.Operation{Verb: windlass.VerbUpdate, Kind: kind, Text: object, Write: options})
}

func (b memoryBackend) Patch(
	kind windlass.GroupVersionKind, key windlass.ObjectKey, patchType windlass.PatchType, patch string,
	options windlass.WriteOptions,
) (string, error) {
	return b.write(windlass.Operation{
		Verb: windlass.VerbPatch, Kind: kind, Key: key, PatchType: patchType, Text: patch, Write: options,
	})
}

func (b memoryBackend) Apply(
	kind windlass.GroupVersionKind, object string, options windlass.ApplyOptions,
) (string, error) {
	return b.write(windlass.Operation{Verb: windlass.VerbApply, Kind: kind, Text: object, Apply: options})
}

func (b memoryBackend) Delete(
	kind windlass.GroupVersionKind, key windlass.ObjectKey, options windlass.DeleteOptions,
) error {
	return b.run(windlass.Operation{Verb: windlass.VerbDelete, Kind: kind, Key: key, Delete: options}).Err
}

func (b memoryBackend) DeleteCollection(
	kind windlass.GroupVersionKind, selection windlass.Selection, options windlass.DeleteOptions,
) error {
	return b.call(VerbDeleteCollection, func(s *store) (windlass.Reply, error) {
		return windlass.Reply{}, s.deleteCollection(kind, selection, options.DryRun)
	}).Err
}

func (b memoryBackend) RecordEvent(event windlass.Event) {
	b.fleet.lock.Lock()
	defer b.fleet.lock.Unlock()
	b.events = append(b.events, event)
}

func (b memoryBackend) Batch(operations []windlass.Operation) []windlass.Reply {
	replies := make([]windlass.Reply, len(operations))
	for i, operation := range operations {
		replies[i] = b.run(operation)
	}
	return replies
}

func (b memoryBackend) write(operation windlass.Operation) (string, error) {
	reply := b.run(operation)
	return reply.Text, reply.Err
}

func (b memoryBackend) run(operation windlass.Operation) windlass.Reply {
	return b.call(operation.Verb, func(s *store) (windlass.Reply, error) { return s.answer(operation) })
}

// call counts a call, and fails it if the test asked for it.
func (b memoryBackend) call(verb windlass.Verb, serve func(*store) (windlass.Reply, error)) windlass.Reply {
	b.fleet.lock.Lock()
	defer b.fleet.lock.Unlock()
	b.calls = append(b.calls, verb)
	if at := slices.IndexFunc(b.failures, func(f failure) bool { return f.verb == verb }); at >= 0 {
		err := b.failures[at].err
		b.failures = slices.Delete(b.failures, at, at+1)
		return windlass.Reply{Err: err}
	}
	reply, err := serve(b.store)
	if err != nil {
		return windlass.Reply{Err: err}
	}
	return reply
}
