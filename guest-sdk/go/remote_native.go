//go:build !wasip1

package windlass

import (
	"encoding/json"
	"log/slog"
)

// Remote is the host in another process. Only in native builds: for package windlasstest and [Run].
type Remote struct {
	// Call calls a function of the contract, written as guest-sdk/protocol.md says, and returns its answer.
	Call func(function any) json.RawMessage
}

// fields are a record of the contract.
type fields = map[string]any

// Config is the reconciler's configuration.
func (r Remote) Config() string { return parse[string](r.Call("Config")) }

// Now is the host's time.
func (r Remote) Now() string { return parse[string](r.Call("Now")) }

// Log writes a line.
func (r Remote) Log(level slog.Level, message string, values []LogField) {
	pairs := make([][2]string, len(values))
	for i, value := range values {
		pairs[i] = [2]string{value.Name, value.Value}
	}
	r.Call(fields{"Log": fields{"level": loudness(level), "message": message, "fields": pairs}})
}

func loudness(level slog.Level) string {
	switch {
	case level < slog.LevelInfo:
		return "Debug"
	case level < slog.LevelWarn:
		return "Info"
	case level < slog.LevelError:
		return "Warn"
	}
	return "Error"
}

// Clusters are the clusters that the labels select.
func (r Remote) Clusters(labelSelector string) ([]ClusterInfo, error) {
	infos, err := resultOf[[]struct {
		Name       string
		Labels     [][2]string
		Properties [][2]string
		Ready      bool
	}](r.Call(fields{"Clusters": fields{"label_selector": orNull(labelSelector)}}))
	clusters := make([]ClusterInfo, len(infos))
	for i, info := range infos {
		clusters[i] = ClusterInfo{
			Name: info.Name, Labels: mapOf(info.Labels), Properties: mapOf(info.Properties), Ready: info.Ready,
		}
	}
	return clusters, err
}

func mapOf(pairs [][2]string) map[string]string {
	named := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		named[pair[0]] = pair[1]
	}
	return named
}

// Open opens a cluster.
func (r Remote) Open(name string) (Backend, error) {
	cluster, err := r.OpenCluster(name)
	if err != nil {
		return nil, err
	}
	return BackendOf(cluster), nil
}

// OpenCluster is [Remote.Open], with the handle.
func (r Remote) OpenCluster(name string) (RemoteCluster, error) {
	handle, err := resultOf[uint32](r.Call(fields{"Open": fields{"name": name}}))
	return RemoteCluster{r, handle}, err
}

// BatchAcross runs operations, each in its cluster.
func (r Remote) BatchAcross(clusters []string, operations []Operation) []Reply {
	pairs := make([][2]any, len(operations))
	for i, operation := range operations {
		pairs[i] = [2]any{clusters[i], wireOperation(operation)}
	}
	return repliesOf(r.Call(fields{"BatchFleet": fields{"operations": pairs}}))
}

// HTTP calls a server that is no API server.
func (r Remote) HTTP(request HTTPRequest) (*HTTPResponse, error) {
	asked := fields{
		"method": request.Method, "url": request.URL, "headers": request.Header.pairs(), "body": numbersOf(request.Body),
		"options": [][2]string{},
	}
	if millis, bounded := request.timeoutMillis(); bounded {
		asked["timeout_ms"] = millis
	}
	answered, err := resultOf[struct {
		Status  int
		Headers [][2]string
		Body    []uint16
	}](r.Call(fields{"Http": fields{"request": asked}}))
	if err != nil {
		return nil, err
	}
	body := make([]byte, len(answered.Body))
	for i, number := range answered.Body {
		body[i] = byte(number)
	}
	return &HTTPResponse{Status: answered.Status, Header: headerOf(answered.Headers), Body: body}, nil
}

// numbersOf are bytes as numbers: a slice of bytes would be a text.
func numbersOf(bytes []byte) []uint16 {
	numbers := make([]uint16, len(bytes))
	for i, each := range bytes {
		numbers[i] = uint16(each)
	}
	return numbers
}

// RemoteCluster is a cluster of a host in another process.
type RemoteCluster struct {
	// Host is the host.
	Host Remote
	// Handle is the host's number of it.
	Handle uint32
}

// Name is the cluster's name.
func (c RemoteCluster) Name() string {
	return parse[string](c.Host.Call(fields{"Name": fields{"cluster": c.Handle}}))
}

// Run runs one operation.
func (c RemoteCluster) Run(operation Operation) Reply {
	name, arguments := wireArguments(operation)
	record := fields{"cluster": c.Handle}
	for _, argument := range arguments {
		record[argument.name] = argument.value
	}
	answer := c.Host.Call(fields{name: record})
	if operation.Verb == VerbList {
		page, err := resultOf[wirePage](answer)
		if err != nil {
			return Reply{Err: err}
		}
		return Reply{Page: page.lifted()}
	}
	text, err := resultOf[string](answer) // null, where there is none
	return Reply{Text: text, Err: err}
}

// DeleteCollection deletes a selection.
func (c RemoteCluster) DeleteCollection(kind GroupVersionKind, selection Selection, options DeleteOptions) error {
	_, err := resultOf[any](c.Host.Call(fields{"DeleteCollection": fields{
		"cluster": c.Handle, "kind": wireKind(kind), "options": wireDelete(options),
		"selection": fields{
			"namespace": orNull(selection.Namespace), "label_selector": orNull(selection.LabelSelector),
			"field_selector": orNull(selection.FieldSelector),
		},
	}}))
	return err
}

// RecordEvent records an event.
func (c RemoteCluster) RecordEvent(event Event) {
	eventType := "Normal"
	if event.Warning {
		eventType = "Warning"
	}
	c.Host.Call(fields{"RecordEvent": fields{"cluster": c.Handle, "event": fields{
		"kind": wireKind(event.Kind), "key": wireKey(event.Key), "event_type": eventType, "reason": event.Reason,
		"action": event.Action, "note": event.Note,
	}}})
}

// Batch runs operations beside each other.
func (c RemoteCluster) Batch(operations []Operation) []Reply {
	written := make([]any, len(operations))
	for i, operation := range operations {
		written[i] = wireOperation(operation)
	}
	return repliesOf(c.Host.Call(fields{"Batch": fields{"cluster": c.Handle, "operations": written}}))
}
