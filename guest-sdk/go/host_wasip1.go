//go:build wasip1

package windlass

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"time"

	"windlass.dev/windlass/internal/bindings/windlass_runtime_client"
	"windlass.dev/windlass/internal/bindings/windlass_runtime_clock"
	"windlass.dev/windlass/internal/bindings/windlass_runtime_config"
	"windlass.dev/windlass/internal/bindings/windlass_runtime_fleet"
	"windlass.dev/windlass/internal/bindings/windlass_runtime_http"
	"windlass.dev/windlass/internal/bindings/windlass_runtime_log"
	"windlass.dev/windlass/internal/bindings/windlass_runtime_types"
	"windlass.dev/windlass/internal/wit/runtime"
	"windlass.dev/windlass/internal/wit/types"
)

// The host's functions, called through the generated bindings. Calls through a [hostCluster] and hostX functions end at a safe
// point, where the garbage collector may run.

func init() { slog.SetDefault(slog.New(handler{})) }

func hostConfig() string {
	defer runtime.SafePoint()
	return windlass_runtime_config.Get()
}

func hostNow() string {
	defer runtime.SafePoint()
	return windlass_runtime_clock.Now()
}

func hostLog(level slog.Level, message string, fields []LogField) {
	defer runtime.SafePoint()
	pairs := make([]types.Tuple2[string, string], len(fields))
	for i, field := range fields {
		pairs[i] = types.Tuple2[string, string]{F0: wellFormed(field.Name), F1: wellFormed(field.Value)}
	}
	loudness := windlass_runtime_log.LevelError
	switch {
	case level < slog.LevelInfo:
		loudness = windlass_runtime_log.LevelDebug
	case level < slog.LevelWarn:
		loudness = windlass_runtime_log.LevelInfo
	case level < slog.LevelError:
		loudness = windlass_runtime_log.LevelWarn
	}
	windlass_runtime_log.Write(loudness, wellFormed(message), pairs)
}

func hostClusters(labelSelector string) ([]ClusterInfo, error) {
	defer runtime.SafePoint()
	infos, err := answer(windlass_runtime_fleet.Clusters(optional(labelSelector)))
	if err != nil {
		return nil, err
	}
	clusters := make([]ClusterInfo, len(infos))
	for i, info := range infos {
		clusters[i] = ClusterInfo{
			Name: info.Name, Labels: pairs(info.Labels), Properties: pairs(info.Properties), Ready: info.Ready,
		}
	}
	return clusters, nil
}

// opened are the clusters that the running call opened. They are closed when it ends.
var opened []*windlass_runtime_client.Cluster

func hostOpen(name string) (Backend, error) {
	defer runtime.SafePoint()
	cluster, err := answer(windlass_runtime_fleet.Open(wellFormed(name)))
	if err != nil {
		return nil, err
	}
	opened = append(opened, cluster)
	return hostCluster{cluster}, nil
}

func hostBatchAcross(clusters []string, operations []Operation) []Reply {
	defer runtime.SafePoint()
	lowered := make([]types.Tuple2[string, windlass_runtime_client.Operation], len(operations))
	for i, operation := range lowerOperations(operations) {
		lowered[i] = types.Tuple2[string, windlass_runtime_client.Operation]{F0: wellFormed(clusters[i]), F1: operation}
	}
	return liftReplies(windlass_runtime_fleet.Batch(lowered))
}

func hostHTTP(request HTTPRequest) (*HTTPResponse, error) {
	defer runtime.SafePoint()
	timeout := types.None[uint32]()
	if millis, bounded := request.timeoutMillis(); bounded {
		timeout = types.Some(millis)
	}
	asked := windlass_runtime_http.Request{
		Method: wellFormed(request.Method), Url: wellFormed(request.URL), Body: request.Body, TimeoutMs: timeout,
	}
	for _, pair := range request.Header.pairs() {
		asked.Headers = append(asked.Headers, types.Tuple2[string, string]{F0: wellFormed(pair[0]), F1: wellFormed(pair[1])})
	}
	answered, err := answer(windlass_runtime_http.Send(asked))
	if err != nil {
		return nil, err
	}
	pairs := make([][2]string, len(answered.Headers))
	for i, header := range answered.Headers {
		pairs[i] = [2]string{header.F0, header.F1}
	}
	return &HTTPResponse{Status: int(answered.Status), Header: headerOf(pairs), Body: answered.Body}, nil
}

// hostCluster is a cluster of the host.
type hostCluster struct {
	cluster *windlass_runtime_client.Cluster
}

func (h hostCluster) Name() string {
	defer runtime.SafePoint()
	return h.cluster.Name()
}

func (h hostCluster) Get(kind GroupVersionKind, key ObjectKey, options GetOptions) (string, bool, error) {
	defer runtime.SafePoint()
	object, err := answer(h.cluster.Get(lowerKind(kind), lowerKey(key), lowerGet(options)))
	return object.Some(), object.IsSome(), err
}

func (h hostCluster) List(kind GroupVersionKind, options ListOptions) (Page[string], error) {
	defer runtime.SafePoint()
	page, err := answer(h.cluster.List(lowerKind(kind), lowerList(options)))
	return liftPage(page), err
}

func (h hostCluster) Create(kind GroupVersionKind, object string, options WriteOptions) (string, error) {
	defer runtime.SafePoint()
	return answer(h.cluster.Create(lowerKind(kind), wellFormed(object), lowerWrite(options)))
}

func (h hostCluster) Update(kind GroupVersionKind, object string, options WriteOptions) (string, error) {
	defer runtime.SafePoint()
	return answer(h.cluster.Update(lowerKind(kind), wellFormed(object), lowerWrite(options)))
}

func (h hostCluster) Patch(
	kind GroupVersionKind, key ObjectKey, patchType PatchType, patch string, options WriteOptions,
) (string, error) {
	defer runtime.SafePoint()
	return answer(h.cluster.Patch(lowerKind(kind), lowerKey(key), uint8(patchType), wellFormed(patch), lowerWrite(options)))
}

func (h hostCluster) Apply(kind GroupVersionKind, object string, options ApplyOptions) (string, error) {
	defer runtime.SafePoint()
	return answer(h.cluster.Apply(lowerKind(kind), wellFormed(object), lowerApply(options)))
}

func (h hostCluster) Delete(kind GroupVersionKind, key ObjectKey, options DeleteOptions) error {
	defer runtime.SafePoint()
	_, err := answer(h.cluster.Delete(lowerKind(kind), lowerKey(key), lowerDelete(options)))
	return err
}

func (h hostCluster) DeleteCollection(kind GroupVersionKind, selection Selection, options DeleteOptions) error {
	defer runtime.SafePoint()
	_, err := answer(h.cluster.DeleteCollection(lowerKind(kind), windlass_runtime_client.Selection{
		Namespace:     optional(selection.Namespace),
		LabelSelector: optional(selection.LabelSelector),
		FieldSelector: optional(selection.FieldSelector),
	}, lowerDelete(options)))
	return err
}

func (h hostCluster) RecordEvent(event Event) {
	defer runtime.SafePoint()
	kind := windlass_runtime_client.EventTypeNormal
	if event.Warning {
		kind = windlass_runtime_client.EventTypeWarning
	}
	h.cluster.RecordEvent(windlass_runtime_client.Event{
		Kind: lowerKind(event.Kind), Key: lowerKey(event.Key), EventType: kind, Reason: wellFormed(event.Reason),
		Action: wellFormed(event.Action), Note: wellFormed(event.Note),
	})
}

func (h hostCluster) Batch(operations []Operation) []Reply {
	defer runtime.SafePoint()
	return liftReplies(h.cluster.Batch(lowerOperations(operations)))
}

// answer is the result of a call, or its error.
func answer[T any](result types.Result[T, windlass_runtime_types.ApiError]) (T, error) {
	if !result.IsErr() {
		return result.Ok(), nil
	}
	raw := result.Err()
	failed := &APIError{
		Code: CodeOther, Status: int(raw.HttpStatus), Reason: raw.Reason, Message: raw.Message,
	}
	if int(raw.Code) < len(codes) {
		failed.Code = codes[raw.Code]
	}
	if raw.Details.IsSome() {
		failed.Details = json.RawMessage(raw.Details.Some())
	}
	if raw.RetryAfterMs.IsSome() {
		after := time.Duration(raw.RetryAfterMs.Some()) * time.Millisecond
		failed.RetryAfter = &after
	}
	return result.Ok(), failing(failed)
}

// optional returns none for "".
func optional(text string) types.Option[string] {
	if text == "" {
		return types.None[string]()
	}
	return types.Some(wellFormed(text))
}

// lowerPairs returns the pairs in the order of their names.
func lowerPairs(fields map[string]string) []types.Tuple2[string, string] {
	lowered := make([]types.Tuple2[string, string], 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		lowered = append(lowered, types.Tuple2[string, string]{F0: wellFormed(name), F1: wellFormed(fields[name])})
	}
	return lowered
}

func pairs(list []types.Tuple2[string, string]) map[string]string {
	fields := make(map[string]string, len(list))
	for _, pair := range list {
		fields[pair.F0] = pair.F1
	}
	return fields
}

func lowerKind(kind GroupVersionKind) windlass_runtime_types.GroupVersionKind {
	return windlass_runtime_types.GroupVersionKind{
		Group: wellFormed(kind.Group), Version: wellFormed(kind.Version), Kind: wellFormed(kind.Kind),
	}
}

func lowerKey(key ObjectKey) windlass_runtime_types.ObjectKey {
	return windlass_runtime_types.ObjectKey{Namespace: optional(key.Namespace), Name: wellFormed(key.Name)}
}

// mode and projection turn a flag into a value of the contract.
func mode(live bool) windlass_runtime_client.ReadMode {
	if live {
		return windlass_runtime_client.ReadModeLive
	}
	return windlass_runtime_client.ReadModeCached
}

func projection(metadataOnly bool) windlass_runtime_client.Projection {
	if metadataOnly {
		return windlass_runtime_client.ProjectionMetadata
	}
	return windlass_runtime_client.ProjectionFull
}

func lowerGet(options GetOptions) windlass_runtime_client.GetOptions {
	return windlass_runtime_client.GetOptions{
		Mode: mode(options.Live), Projection: projection(options.MetadataOnly), Subresource: optional(options.Subresource),
	}
}

func lowerList(options ListOptions) windlass_runtime_client.ListOptions {
	index := types.None[types.Tuple2[string, string]]()
	if options.IndexName != "" {
		index = types.Some(types.Tuple2[string, string]{
			F0: wellFormed(options.IndexName), F1: wellFormed(options.IndexValue),
		})
	}
	return windlass_runtime_client.ListOptions{
		Namespace: optional(options.Namespace), LabelSelector: optional(options.LabelSelector),
		FieldSelector: optional(options.FieldSelector), Index: index, Limit: options.Limit,
		ContinueToken: optional(options.Continue), Mode: mode(options.Live), Projection: projection(options.MetadataOnly),
	}
}

func lowerWrite(options WriteOptions) windlass_runtime_client.WriteOptions {
	return windlass_runtime_client.WriteOptions{Subresource: optional(options.Subresource), DryRun: options.DryRun}
}

func lowerApply(options ApplyOptions) windlass_runtime_client.ApplyOptions {
	return windlass_runtime_client.ApplyOptions{
		Subresource: optional(options.Subresource), Force: options.Force, DryRun: options.DryRun,
	}
}

func lowerDelete(options DeleteOptions) windlass_runtime_client.DeleteOptions {
	propagation := types.None[windlass_runtime_client.Propagation]()
	switch options.Propagation {
	case Background:
		propagation = types.Some(windlass_runtime_client.PropagationBackground)
	case Foreground:
		propagation = types.Some(windlass_runtime_client.PropagationForeground)
	case Orphan:
		propagation = types.Some(windlass_runtime_client.PropagationOrphan)
	}
	grace := types.None[uint32]()
	if options.GracePeriodSeconds != nil {
		grace = types.Some(*options.GracePeriodSeconds)
	}
	return windlass_runtime_client.DeleteOptions{
		Uid: optional(options.UID), ResourceVersion: optional(options.ResourceVersion), Propagation: propagation,
		GracePeriodSeconds: grace, DryRun: options.DryRun,
	}
}

func lowerOperations(operations []Operation) []windlass_runtime_client.Operation {
	lowered := make([]windlass_runtime_client.Operation, len(operations))
	for i := range operations {
		lowered[i] = lowerOperation(&operations[i])
	}
	return lowered
}

func lowerOperation(operation *Operation) windlass_runtime_client.Operation {
	type (
		kindOf  = windlass_runtime_types.GroupVersionKind
		keyOf   = windlass_runtime_types.ObjectKey
		writing = types.Tuple3[kindOf, string, windlass_runtime_client.WriteOptions]
	)
	kind, key, text := lowerKind(operation.Kind), lowerKey(operation.Key), wellFormed(operation.Text)
	switch operation.Verb {
	case VerbList:
		return windlass_runtime_client.MakeOperationList(
			types.Tuple2[kindOf, windlass_runtime_client.ListOptions]{F0: kind, F1: lowerList(operation.List)})
	case VerbCreate:
		return windlass_runtime_client.MakeOperationCreate(writing{F0: kind, F1: text, F2: lowerWrite(operation.Write)})
	case VerbUpdate:
		return windlass_runtime_client.MakeOperationUpdate(writing{F0: kind, F1: text, F2: lowerWrite(operation.Write)})
	case VerbPatch:
		return windlass_runtime_client.MakeOperationPatch(
			types.Tuple5[kindOf, keyOf, windlass_runtime_client.PatchType, string, windlass_runtime_client.WriteOptions]{
				F0: kind, F1: key, F2: uint8(operation.PatchType), F3: text, F4: lowerWrite(operation.Write),
			})
	case VerbApply:
		return windlass_runtime_client.MakeOperationApply(
			types.Tuple3[kindOf, string, windlass_runtime_client.ApplyOptions]{F0: kind, F1: text, F2: lowerApply(operation.Apply)})
	case VerbDelete:
		return windlass_runtime_client.MakeOperationDelete(
			types.Tuple3[kindOf, keyOf, windlass_runtime_client.DeleteOptions]{F0: kind, F1: key, F2: lowerDelete(operation.Delete)})
	default:
		return windlass_runtime_client.MakeOperationGet(
			types.Tuple3[kindOf, keyOf, windlass_runtime_client.GetOptions]{F0: kind, F1: key, F2: lowerGet(operation.Get)})
	}
}

func liftReplies(results []types.Result[windlass_runtime_client.Reply, windlass_runtime_types.ApiError]) []Reply {
	replies := make([]Reply, len(results))
	for i, result := range results {
		reply, err := answer(result)
		switch {
		case err != nil:
			replies[i].Err = err
		case reply.Tag() == windlass_runtime_client.ReplyObject:
			replies[i].Text = reply.Object()
		case reply.Tag() == windlass_runtime_client.ReplyPage:
			page := liftPage(reply.Page())
			replies[i].Page = &page
		}
	}
	return replies
}

func liftPage(page windlass_runtime_client.ListPage) Page[string] {
	return Page[string]{Items: page.Items, Continue: page.ContinueToken.Some(), ResourceVersion: page.ResourceVersion}
}
