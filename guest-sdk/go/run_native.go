//go:build !wasip1

package windlass

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"windlass.dev/windlass/internal/hook"
	"windlass.dev/windlass/internal/socket"
)

// socketFile has the path of the socket of `windlass dev --native`.
const socketFile = ".windlass/native"

// Run serves a native build of a guest, from its main: `windlass dev --native RECONCILER` calls it as it calls a component, and a debugger
// stops at its breakpoints. It ends when that program does. A component's main never runs.
func Run() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	path, err := os.ReadFile(socketFile)
	if err != nil {
		return fmt.Errorf("start `windlass dev --native RECONCILER` first, and this in the guest's folder: %w", err)
	}
	connection, err := socket.Dial(strings.TrimSpace(string(path)))
	if err != nil {
		return fmt.Errorf("start `windlass dev --native RECONCILER` first: %w", err)
	}
	defer connection.Close()
	remote := Remote{func(function any) json.RawMessage {
		answer, err := connection.Call(function)
		if err != nil {
			panic(err)
		}
		return answer
	}}
	defer SetHost(remote)()
	for {
		line, err := connection.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := connection.Send(fields{"Return": done(line, remote)}); err != nil {
			return err
		}
	}
}

// done does what the host asks for, and returns the result.
func done(line json.RawMessage, remote Remote) any {
	if string(line) == "\"Describe\"\n" {
		description, err := describe()
		if err != nil {
			return fields{"Err": err.Error()}
		}
		return fields{"Ok": wireDescription(&description)}
	}
	task := parse[struct {
		Reconcile *struct {
			Request wireRequest
			Cluster uint32
		}
		MapObjects struct {
			Cluster uint32
			Kind    GroupVersionKind
			Objects []string
		}
	}](line)
	if task.Reconcile != nil {
		cluster := NewCluster(BackendOf(RemoteCluster{remote, task.Reconcile.Cluster}))
		return outcome(reconcile(task.Reconcile.Request.lifted(), cluster))
	}
	mapping := task.MapObjects
	mapper, _ := hook.Mapper.(Mapper)
	if mapper == nil {
		return fields{"Err": "there is no mapper: call mapper.Register in an init function"}
	}
	requests, err := mapObjects(
		mapper, NewCluster(BackendOf(RemoteCluster{remote, mapping.Cluster})), mapping.Kind, mapping.Objects)
	if err != nil {
		return fields{"Err": err.Error()}
	}
	written := make([]any, len(requests))
	for i, request := range requests {
		written[i] = fields{"cluster": request.Cluster, "key": wireKey(request.ObjectKey)}
	}
	return fields{"Ok": written}
}

// outcome is the result of a reconcile.
func outcome(result Result, err error) any {
	if IsTerminal(err) {
		return fields{"Err": fields{"Terminal": err.Error()}}
	}
	if err != nil {
		return fields{"Err": fields{"Retry": err.Error()}}
	}
	if millis, again := result.millis(); again {
		return fields{"Ok": fields{"RequeueAfterMs": millis}}
	}
	return fields{"Ok": "Done"}
}

type wireRequest struct {
	Cluster string
	Key     ObjectKey
}

func (r wireRequest) lifted() Request { return Request{Cluster: r.Cluster, ObjectKey: r.Key} }

func wireDescription(description *Description) any {
	watches, indexes := make([]any, len(description.Watches)), make([]any, len(description.Indexes))
	for i, watch := range description.Watches {
		changes := make([]string, len(watch.Changes))
		for at, change := range watch.Changes {
			changes[at] = [...]string{"Generation", "Labels", "Annotations", "Status"}[change]
		}
		watches[i] = fields{
			"kind": wireKind(watch.Kind), "enqueue": wireEnqueue(watch.Enqueue),
			"clusters":       [...]string{"AsConfigured", "Local", "Provider", "All"}[watch.Clusters],
			"label_selector": orNull(watch.LabelSelector), "field_selector": orNull(watch.FieldSelector),
			"changes": changes, "metadata_only": watch.MetadataOnly, "options": wirePairs(watch.Options),
		}
	}
	for i, index := range description.Indexes {
		indexes[i] = fields{
			"kind": wireKind(index.Kind), "name": index.Name, "path": index.Path, "namespace_path": orNull(index.NamespacePath),
			"options": wirePairs(index.Options),
		}
	}
	written := fields{
		"title": description.Title, "watches": watches, "indexes": indexes, "options": wirePairs(description.Options),
	}
	if primary, ok := description.primary(); ok {
		written["primary"] = wireKind(primary)
	}
	return written
}

func wireEnqueue(enqueue Enqueue) any {
	if enqueue.how == byIndex {
		return fields{"ByIndex": enqueue.index}
	}
	return caseOf(enqueue.String())
}

// wirePairs are a map's pairs, in any order.
func wirePairs(options map[string]string) [][2]string {
	pairs := make([][2]string, 0, len(options))
	for name, value := range options {
		pairs = append(pairs, [2]string{name, value})
	}
	return pairs
}
