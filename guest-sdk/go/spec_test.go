//go:build !wasip1

package windlass

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The cases that every SDK passes: guest-sdk/spec.

type specCase struct {
	Name    string
	Do      string
	With    specArguments
	Now     string
	Calls   []specCall
	Returns json.RawMessage
	Object  Object
	Fails   *specFailure
	Events  []map[string]any
	Logs    []map[string]any
}

type specArguments struct {
	Object, Owner, About, Primary    Object
	Desired                          []Object
	Type, Kind, Key, Namespace       string
	Condition                        *Condition
	Finalizer, Reason, Note, Message string
	Warning                          bool
	Take, Seconds, RecheckSeconds    int
	Set, Status                      Object
	Kinds, Recreate                  []string
	Ready                            map[string]string
	Cleanup                          *struct {
		NotReady *struct {
			Message string
			Seconds int
		}
		Fails *specFailure
	}
	Value json.RawMessage
}

type specFailure struct {
	Code    Code            `json:"code"`
	Message string          `json:"message"`
	Status  int             `json:"status,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}

func (f *specFailure) err() error {
	return &APIError{Code: f.Code, Message: f.Message, Status: f.Status, Details: f.Details}
}

type specCall struct {
	Call                        string
	Kind, Key                   string
	Object, Patch               json.RawMessage
	Force, DryRun, Live         bool
	Propagation                 string
	Subresource, Namespace, UID string
	Index                       []string
	ContinueToken               string
	Answer                      json.RawMessage
	Fails                       *specFailure
	Calls                       []specCall
}

func specKind(text string) GroupVersionKind {
	at := strings.LastIndex(text, "/")
	return GVK(text[:at], text[at+1:])
}

func specKey(text string) ObjectKey {
	namespace, name, namespaced := strings.Cut(text, "/")
	if !namespaced {
		return ObjectKey{Name: text}
	}
	return ObjectKey{Namespace: namespace, Name: name}
}

// operation is the call of a case as an operation, without its text.
func (c specCall) operation() Operation {
	operation := Operation{Verb: Verb(c.Call)}
	if c.Kind != "" {
		operation.Kind = specKind(c.Kind)
	}
	if c.Key != "" {
		operation.Key = specKey(c.Key)
	}
	switch operation.Verb {
	case VerbGet:
		operation.Get.Live = c.Live
	case VerbList:
		operation.List = ListOptions{Namespace: c.Namespace, Continue: c.ContinueToken}
		if len(c.Index) == 2 {
			operation.List.IndexName, operation.List.IndexValue = c.Index[0], c.Index[1]
		}
	case VerbPatch:
		operation.PatchType = MergePatchType
		operation.Write.Subresource = c.Subresource
	case VerbApply:
		operation.Apply.Force = c.Force
	case VerbCreate:
		operation.Write.DryRun = c.DryRun
	case VerbDelete:
		operation.Delete.UID = c.UID
		if c.Propagation == "background" {
			operation.Delete.Propagation = Background
		}
	}
	return operation
}

// specHost is the host of a case, which expects its calls.
type specHost struct {
	*testing.T
	now    string
	calls  []specCall
	events []map[string]any
	logs   []map[string]any
}

func (h *specHost) next() specCall {
	h.Helper()
	if len(h.calls) == 0 {
		h.Fatal("the case expects no further call")
	}
	next := h.calls[0]
	h.calls = h.calls[1:]
	return next
}

func (h *specHost) answer(operation Operation, expected specCall) Reply {
	h.Helper()
	text := expected.Object
	if operation.Verb == VerbPatch {
		text = expected.Patch
	}
	wanted, made := expected.operation(), operation
	sent := made.Text
	made.Text, made.err = "", nil
	switch made.Verb {
	case VerbCreate, VerbUpdate, VerbApply:
		made.Kind = GroupVersionKind{}
	}
	if !reflect.DeepEqual(made, wanted) || !sameText(sent, string(text)) {
		h.Fatalf("%+v %s\ninstead of\n%+v %s", made, sent, wanted, text)
	}
	switch {
	case expected.Fails != nil:
		return Reply{Err: expected.Fails.err()}
	case operation.Verb == VerbList:
		var page struct {
			Items         []json.RawMessage
			ContinueToken string
		}
		if err := json.Unmarshal(expected.Answer, &page); err != nil {
			h.Fatal(err)
		}
		listed := Page[string]{Continue: page.ContinueToken}
		for _, item := range page.Items {
			listed.Items = append(listed.Items, string(item))
		}
		return Reply{Page: &listed}
	case operation.Verb == VerbDelete || string(expected.Answer) == "null":
		return Reply{}
	case expected.Answer == nil:
		return Reply{Text: operation.Text} // what was sent
	}
	return Reply{Text: string(expected.Answer)}
}

func sameText(one, other string) bool {
	var first, second any
	if one == "" || other == "" {
		return one == other
	}
	return json.Unmarshal([]byte(one), &first) == nil && json.Unmarshal([]byte(other), &second) == nil && reflect.DeepEqual(first, second)
}

func (h *specHost) call(operation Operation) (string, error) {
	h.Helper()
	reply := h.answer(operation, h.next())
	return reply.Text, reply.Err
}

func (h *specHost) HTTP(HTTPRequest) (*HTTPResponse, error) { panic("no case calls it") }

func (h *specHost) Name() string { return "alpha" }

func (h *specHost) Get(kind GroupVersionKind, key ObjectKey, options GetOptions) (string, bool, error) {
	text, err := h.call(Operation{Verb: VerbGet, Kind: kind, Key: key, Get: options})
	return text, text != "", err
}

func (h *specHost) List(kind GroupVersionKind, options ListOptions) (Page[string], error) {
	reply := h.answer(Operation{Verb: VerbList, Kind: kind, List: options}, h.next())
	if reply.Err != nil {
		return Page[string]{}, reply.Err
	}
	return *reply.Page, nil
}

func (h *specHost) Create(kind GroupVersionKind, object string, options WriteOptions) (string, error) {
	return h.call(Operation{Verb: VerbCreate, Kind: kind, Text: object, Write: options})
}

func (h *specHost) Update(kind GroupVersionKind, object string, options WriteOptions) (string, error) {
	return h.call(Operation{Verb: VerbUpdate, Kind: kind, Text: object, Write: options})
}

func (h *specHost) Patch(kind GroupVersionKind, key ObjectKey, patchType PatchType, patch string, options WriteOptions) (string, error) {
	return h.call(Operation{Verb: VerbPatch, Kind: kind, Key: key, PatchType: patchType, Text: patch, Write: options})
}

func (h *specHost) Apply(kind GroupVersionKind, object string, options ApplyOptions) (string, error) {
	return h.call(Operation{Verb: VerbApply, Kind: kind, Text: object, Apply: options})
}

func (h *specHost) Delete(kind GroupVersionKind, key ObjectKey, options DeleteOptions) error {
	_, err := h.call(Operation{Verb: VerbDelete, Kind: kind, Key: key, Delete: options})
	return err
}

func (h *specHost) DeleteCollection(GroupVersionKind, Selection, DeleteOptions) error {
	h.Fatal("no case deletes a collection")
	return nil
}

func (h *specHost) RecordEvent(event Event) {
	h.events = append(h.events, map[string]any{
		"kind": event.Kind.String(), "key": event.Key.String(), "warning": event.Warning,
		"reason": event.Reason, "action": event.Action, "note": event.Note,
	})
}

func (h *specHost) Batch(operations []Operation) []Reply {
	h.Helper()
	expected := h.next()
	if expected.Call != "batch" || len(expected.Calls) != len(operations) {
		h.Fatalf("a batch of %+v\ninstead of\n%+v", operations, expected)
	}
	replies := make([]Reply, len(operations))
	for i, operation := range operations {
		replies[i] = h.answer(operation, expected.Calls[i])
	}
	return replies
}

func (h *specHost) Config() string { return "{}" }
func (h *specHost) Now() string    { return h.now }
func (h *specHost) Log(level slog.Level, message string, fields []LogField) {
	named := map[string]any{}
	for _, field := range fields {
		named[field.Name] = field.Value
	}
	h.logs = append(h.logs, map[string]any{"level": strings.ToLower(level.String()), "message": message, "fields": named})
}
func (h *specHost) Clusters(string) ([]ClusterInfo, error)        { return nil, nil }
func (h *specHost) Open(string) (Backend, error)                  { return h, nil }
func (h *specHost) BatchAcross(_ []string, o []Operation) []Reply { return h.Batch(o) }

// body is a reconciler that does what a case says.
type body func() (Result, error)

func (body) Describe() (Description, error)                { return Description{}, nil }
func (b body) Reconcile(Request, *Cluster) (Result, error) { return b() }

func (h *specHost) reconciled(b body) (any, error) {
	result, err := Reconcile(b, Request{}, NewCluster(h))
	if millis, again := result.millis(); again {
		return map[string]any{"requeueAfterMs": millis}, err
	}
	return map[string]any{"done": true}, err
}

func (a specArguments) dependents(h *specHost) Dependents {
	parts := Dependents{Finalizer: a.Finalizer, Recheck: time.Duration(a.RecheckSeconds) * time.Second}
	for _, kind := range a.Kinds {
		parts.Kinds = append(parts.Kinds, specKind(kind))
	}
	for _, kind := range a.Recreate {
		parts.Recreate = append(parts.Recreate, specKind(kind))
	}
	if a.Ready != nil {
		parts.Ready = func(object Object) string {
			if why := a.Ready[object.GVK().Kind]; why != "" {
				return why
			}
			return Readiness(object)
		}
	}
	if a.Cleanup == nil {
		return parts.WithStatus(a.Status)
	}
	return parts.WithStatus(a.Status).WithCleanup(func() error {
		if next := h.next(); next.Call != "cleanup" {
			h.Fatalf("a clean-up instead of %+v", next)
		}
		if waits := a.Cleanup.NotReady; waits != nil {
			return NotReady(time.Duration(waits.Seconds)*time.Second, "%s", waits.Message)
		}
		if a.Cleanup.Fails != nil {
			return a.Cleanup.Fails.err()
		}
		return nil
	})
}

func identified(objects []Object) (all []Identified) {
	for _, object := range objects {
		all = append(all, object)
	}
	return all
}

func present(condition *Condition) any {
	if condition == nil {
		return nil
	}
	made := map[string]any{
		"type": condition.Type, "status": condition.Status, "reason": condition.Reason, "message": condition.Message,
		"lastTransitionTime": condition.LastTransitionTime,
	}
	if condition.ObservedGeneration != 0 {
		made["observedGeneration"] = condition.ObservedGeneration
	}
	return made
}

func textOrNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func writtenAs(written Written, err error) (any, error) {
	return map[string]any{"effect": written.Effect, "object": written.Object}, err
}

func (c *specCase) run(h *specHost) (any, error) {
	a, cluster := c.With, NewCluster(h)
	switch c.Do {
	case "condition":
		return present(a.Object.Condition(a.Type)), nil
	case "setCondition":
		return a.Object.SetCondition(*a.Condition), nil
	case "isDeleting":
		return a.Object.Deleting(), nil
	case "hasFinalizer":
		return a.Object.HasFinalizer(a.Finalizer), nil
	case "ensureFinalizer":
		return writtenAs(cluster.EnsureFinalizer(a.Object, a.Finalizer))
	case "removeFinalizer":
		return writtenAs(cluster.RemoveFinalizer(a.Object, a.Finalizer))
	case "ownerReference":
		return a.Owner.OwnerReference(), nil
	case "controllerReference":
		return a.Owner.ControllerReference(), nil
	case "setOwner":
		return nil, a.Object.SetOwner(a.Owner)
	case "setController":
		return nil, a.Object.SetController(a.Owner)
	case "controllerOf":
		return a.Object.Controller(), nil
	case "ensure":
		return writtenAs(cluster.Ensure(a.Object))
	case "createOrUpdate":
		return writtenAs(cluster.CreateOrUpdate(specKind(a.Kind), specKey(a.Key), func(object Object) error {
			for name, value := range a.Set {
				object[name] = value
			}
			return nil
		}))
	case "setStatus":
		return writtenAs(cluster.SetStatus(specKind(a.Kind), specKey(a.Key), a.Status))
	case "event":
		if a.Warning {
			cluster.Warn(a.About, a.Reason, a.Note)
		} else {
			cluster.Event(a.About, a.Reason, a.Note)
		}
		return nil, nil
	case "listAll":
		var names []string
		for object, err := range cluster.ListAll(specKind(a.Kind), InNamespace(a.Namespace)) {
			if err != nil {
				return nil, err
			}
			if names = append(names, object.Key().Name); len(names) == a.Take {
				break
			}
		}
		return names, nil
	case "requeueAfter":
		return h.reconciled(func() (Result, error) { return RequeueAfter(time.Duration(a.Seconds) * time.Second), nil })
	case "notReady":
		return h.reconciled(func() (Result, error) {
			return Result{}, NotReady(time.Duration(a.Seconds)*time.Second, "%s", a.Message)
		})
	case "readiness":
		return textOrNil(Readiness(a.Object)), nil
	case "fingerprint":
		var value Object
		if err := json.Unmarshal(append(append([]byte(`{"value":`), a.Value...), '}'), &value); err != nil {
			return nil, err
		}
		return fingerprint(value["value"]), nil
	case "dependents":
		return h.reconciled(func() (Result, error) { return a.dependents(h).Reconcile(cluster, a.Primary, identified(a.Desired)...) })
	case "describeDependents":
		var watches, indexes []any
		for _, watch := range a.dependents(h).Watches() {
			watches = append(watches, map[string]any{"kind": watch.Kind.String(), "enqueue": watch.Enqueue.String()})
		}
		for _, index := range a.dependents(h).Indexes() {
			indexes = append(indexes, map[string]any{"kind": index.Kind.String(), "name": index.Name, "path": index.Path})
		}
		return map[string]any{"watches": watches, "indexes": indexes}, nil
	}
	h.Fatalf("there is no %s", c.Do)
	return nil, nil
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	one, _ := json.Marshal(got)
	other, _ := json.Marshal(want)
	if string(one) != string(other) && !sameText(string(one), string(other)) {
		t.Errorf("%s: got\n%s\ninstead of\n%s", what, one, other)
	}
}

func TestEveryCaseOfTheSpecification(t *testing.T) {
	files, err := filepath.Glob("../spec/*.json")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var spec struct{ Cases []specCase }
		if err := json.Unmarshal(text, &spec); err != nil {
			t.Fatal(file, err)
		}
		for _, c := range spec.Cases {
			t.Run(c.Name, func(t *testing.T) {
				h := &specHost{T: t, now: "2026-01-31T09:30:00.000Z", calls: c.Calls}
				if c.Now != "" {
					h.now = c.Now
				}
				defer SetHost(h)()
				returned, err := c.run(h)
				var failed *APIError
				if errors.As(err, &failed) && c.Fails != nil {
					same(t, "failure", specFailure{Code: failed.Code, Message: failed.Message}, c.Fails)
				} else if err != nil || c.Fails != nil {
					t.Fatal(err, c.Fails)
				}
				if c.Returns != nil {
					same(t, "returned", returned, c.Returns)
				}
				if c.Object != nil {
					same(t, "object", c.With.Object, c.Object)
				}
				same(t, "calls that were not made", len(h.calls), 0)
				same(t, "events", len(h.events), len(c.Events))
				if len(c.Events) > 0 {
					same(t, "events", h.events, c.Events)
				}
				same(t, "logs", len(h.logs), len(c.Logs))
				if len(c.Logs) > 0 {
					same(t, "logs", h.logs, c.Logs)
				}
			})
		}
	}
}

func TestAnObjectThatDoesNotFitIsNamedWithTheField(t *testing.T) {
	var into struct {
		Spec struct{ Replicas int }
	}
	kind := GVK("example.com/v1", "Website")
	err := decodeInto(kind, `{"metadata":{"namespace":"default","name":"bad"},"spec":{"replicas":"two"}}`, &into)
	want := "cannot decode example.com/v1/Website default/bad: Spec.replicas: expected int, found string"
	if failed := (*APIError)(nil); !errors.As(err, &failed) || !strings.EqualFold(failed.Message, want) {
		t.Errorf("got %v, and not %s", err, want)
	}
}
