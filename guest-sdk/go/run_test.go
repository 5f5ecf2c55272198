//go:build !wasip1

package windlass

import (
	"bufio"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"windlass.dev/windlass/internal/hook"
)

// caller uses each function of the host once.
type caller struct{ t *testing.T }

func (c caller) Describe() (Description, error) {
	return Description{
		Title:   "calls",
		Watches: []Watch{{Kind: GVK("v1", "ConfigMap"), Enqueue: ByIndex("i"), Clusters: LocalCluster, Changes: []Change{StatusChange}}},
		Indexes: []Index{{Kind: GVK("v1", "Secret"), Name: "i", Path: "data.a", Options: map[string]string{"o": "p"}}},
		Primary: GVK("v1", "Secret"),
	}, nil
}

func (c caller) Reconcile(req Request, cluster *Cluster) (Result, error) {
	maps, key := GVK("v1", "ConfigMap"), req.ObjectKey
	object := NewObject(maps, key)
	if req.Cluster != "alpha" || cluster.Name() != "alpha" {
		c.t.Errorf("got %v", req)
	}
	if got, err := cluster.Get(maps, key, Live); err != nil || got != nil {
		c.t.Errorf("got %v, %v", got, err)
	}
	page, err := cluster.List(maps, IndexedBy{"i", "v"}, Limit(1))
	if err != nil || len(page.Items) != 1 || page.Continue != "more" {
		c.t.Errorf("got %v, %v", page, err)
	}
	after := 7 * time.Millisecond
	_, err = cluster.Patch(maps, key, JSONPatch(), Status)
	want := &APIError{
		Code: CodeAlreadyExists, Status: 409, Reason: "R", Message: "m", Details: json.RawMessage("{}"), RetryAfter: &after,
	}
	var failed *APIError
	if !errors.As(err, &failed) || !reflect.DeepEqual(failed, want) {
		c.t.Errorf("got %+v", failed)
	}
	if err := cluster.DeleteCollection(maps, Selection{Namespace: "n"}, Orphan); err != nil {
		c.t.Error(err)
	}
	cluster.Warn(object, "Reason", "note")
	replies := cluster.Batch(OpApply(object, Force), OpDelete(maps, key), OpList(maps), OpGet(maps, key))
	if replies[0].Text != "{}" || replies[1].Text != "" || replies[2].Page == nil || !IsConflict(replies[3].Err) {
		c.t.Errorf("got %+v", replies)
	}
	infos, err := Clusters("a=b")
	if err != nil || !reflect.DeepEqual(infos, []ClusterInfo{{"beta", map[string]string{"a": "b"}, map[string]string{}, true}}) {
		c.t.Errorf("got %v, %v", infos, err)
	}
	beta, err := Open("beta")
	if err != nil {
		c.t.Fatal(err)
	}
	if made, err := beta.Create(object, DryRun); err != nil || made == nil {
		c.t.Errorf("got %v, %v", made, err)
	}
	BatchAcross(In{"beta", OpUpdate(object)})
	answer, err := HTTPDo(HTTPRequest{Method: "PUT", URL: "https://a/", Header: HTTPHeader{"X": {"1", "2"}}, Body: []byte{1, 255}, Timeout: time.Microsecond})
	if err != nil || answer.Status != 503 || string(answer.Body) != "\x00\xff" || answer.Header.Get("retry-after") != "7" {
		c.t.Errorf("got %v, %v", answer, err)
	}
	if _, err := HTTPGet("https://b/"); !IsDenied(err) {
		c.t.Errorf("got %v", err)
	}
	var config struct{ Size int }
	if err := Config(&config); err != nil || config.Size != 3 {
		c.t.Errorf("got %v, %v", config, err)
	}
	slog.Warn("called", "at", Now().Second())
	return RequeueAfter(time.Second), nil
}

func (c caller) Map(_ *Cluster, kind GroupVersionKind, objects []Object) ([]Request, error) {
	return []Request{{"beta", objects[0].Key()}}, nil
}

const (
	jsonKind   = `"kind":{"group":"","kind":"ConfigMap","version":"v1"}`
	jsonKey    = `"key":{"name":"a","namespace":"n"}`
	jsonWrite  = `{"dry_run":false,"subresource":null}`
	jsonDelete = `"dry_run":false,"grace_period_seconds":null,"resource_version":null,"uid":null`
	jsonList   = `"continue_token":null,"field_selector":null,"label_selector":null,"mode":"Cached","namespace":null,"projection":"Full"`
	jsonObject = `"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\",\"namespace\":\"n\"}}"`
)

// lines of the host, each with what the guest sends for it.
var exchanged = [][2]string{
	{`"Describe"`, `{"Return":{"Ok":{"indexes":[{"kind":{"group":"","kind":"Secret","version":"v1"},"name":"i","namespace_path":null,` +
		`"options":[["o","p"]],"path":"data.a"}],"options":[],"primary":{"group":"","kind":"Secret","version":"v1"},"title":"calls",` +
		`"watches":[{"changes":["Status"],"clusters":"Local","enqueue":{"ByIndex":"i"},"field_selector":null,` + jsonKind +
		`,"label_selector":null,"metadata_only":false,"options":[]}]}}}`},
	{`{"Reconcile":{"request":{"cluster":"alpha",` + jsonKey + `},"cluster":4}}`, `{"Call":{"Name":{"cluster":4}}}`},
	{`"alpha"`, `{"Call":{"Get":{"cluster":4,` + jsonKey + `,` + jsonKind + `,"options":{"mode":"Live","projection":"Full","subresource":null}}}}`},
	{`{"Ok":null}`, `{"Call":{"List":{"cluster":4,` + jsonKind + `,"options":{"index":["i","v"],"limit":1,` + jsonList + `}}}}`},
	{`{"Ok":{"items":["{}"],"continue_token":"more","resource_version":"1"}}`, `{"Call":{"Patch":{"cluster":4,` + jsonKey + `,` + jsonKind +
		`,"options":{"dry_run":false,"subresource":"status"},"patch":"null","patch_type":"JsonPatch"}}}`},
	{`{"Err":{"code":"AlreadyExists","http_status":409,"reason":"R","message":"m","details":"{}","retry_after_ms":7}}`,
		`{"Call":{"DeleteCollection":{"cluster":4,` + jsonKind + `,"options":{` + jsonDelete + `,"propagation":"Orphan"},` +
			`"selection":{"field_selector":null,"label_selector":null,"namespace":"n"}}}}`},
	{`{"Ok":null}`, `{"Call":{"RecordEvent":{"cluster":4,"event":{"action":"Reconcile","event_type":"Warning",` + jsonKey + `,` + jsonKind +
		`,"note":"note","reason":"Reason"}}}}`},
	{`null`, `{"Call":{"Batch":{"cluster":4,"operations":[{"Apply":[{"group":"","kind":"ConfigMap","version":"v1"},` + jsonObject +
		`,{"dry_run":false,"force":true,"subresource":null}]},{"Delete":[{"group":"","kind":"ConfigMap","version":"v1"},` +
		`{"name":"a","namespace":"n"},{` + jsonDelete + `,"propagation":null}]},{"List":[{"group":"","kind":"ConfigMap","version":"v1"},{"limit":0,` +
		jsonList + `}]},{"Get":[{"group":"","kind":"ConfigMap","version":"v1"},{"name":"a","namespace":"n"},` +
		`{"mode":"Cached","projection":"Full","subresource":null}]}]}}}`},
	{`[{"Ok":{"Object":"{}"}},{"Ok":"Nothing"},{"Ok":{"Page":{"items":[],"continue_token":null,"resource_version":"1"}}},` +
		`{"Err":{"code":"Conflict","http_status":409,"reason":"","message":"","details":null,"retry_after_ms":null}}]`,
		`{"Call":{"Clusters":{"label_selector":"a=b"}}}`},
	{`{"Ok":[{"name":"beta","labels":[["a","b"]],"properties":[],"ready":true}]}`, `{"Call":{"Open":{"name":"beta"}}}`},
	{`{"Ok":5}`, `{"Call":{"Create":{"cluster":5,` + jsonKind + `,"object":` + jsonObject + `,"options":{"dry_run":true,"subresource":null}}}}`},
	{`{"Ok":"{}"}`, `{"Call":{"BatchFleet":{"operations":[["beta",{"Update":[{"group":"","kind":"ConfigMap","version":"v1"},` + jsonObject + `,` +
		jsonWrite + `]}]]}}}`},
	{`[{"Ok":{"Object":"{}"}}]`, `{"Call":{"Http":{"request":{"method":"PUT","url":"https://a/","headers":[["X","1"],["X","2"]],"body":[1,255],` +
		`"timeout_ms":1,"options":[]}}}}`},
	{`{"Ok":{"status":503,"headers":[["retry-after","7"]],"body":[0,255]}}`,
		`{"Call":{"Http":{"request":{"method":"GET","url":"https://b/","headers":[],"body":[],"options":[]}}}}`},
	{`{"Err":{"code":"Denied","http_status":0,"reason":"","message":"m","details":null,"retry_after_ms":null}}`, `{"Call":"Config"}`},
	{`"{\"size\":3}"`, `{"Call":"Now"}`},
	{`"2026-01-31T09:30:05.000Z"`, `{"Call":{"Log":{"fields":[["at","5"]],"level":"Warn","message":"called"}}}`},
	{`null`, `{"Return":{"Ok":{"RequeueAfterMs":1000}}}`},
	{`{"MapObjects":{"cluster":6,` + jsonKind + `,"objects":[` + jsonObject + `]}}`, `{"Return":{"Ok":[{"cluster":"beta",` + jsonKey + `}]}}`},
}

func TestAGuestOfAProcessCallsTheHostInLines(t *testing.T) {
	register(t, caller{t})
	hook.Mapper = caller{t}
	defer func() { hook.Mapper = nil }()
	t.Chdir(t.TempDir())
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	if err := errors.Join(err, os.Mkdir(".windlass", 0o755), os.WriteFile(socketFile, []byte(path), 0o644)); err != nil {
		t.Fatal(err)
	}
	go func() {
		guest, err := listener.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer guest.Close()
		lines := bufio.NewReader(guest)
		for _, exchange := range exchanged {
			if _, err := guest.Write([]byte(exchange[0] + "\n")); err != nil {
				t.Error(err)
				return
			}
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Error(err)
				return
			}
			var sent, wanted any
			if errors.Join(json.Unmarshal([]byte(line), &sent), json.Unmarshal([]byte(exchange[1]), &wanted)) != nil ||
				!reflect.DeepEqual(sent, wanted) {
				t.Errorf("for %s\ngot %sinstead of %s", exchange[0], line, exchange[1])
			}
		}
	}()
	if err := serve(); err != nil {
		t.Error(err)
	}
}

func TestAProcessWithoutAHostSaysHowToStartOne(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := serve(); err == nil || !strings.Contains(err.Error(), "start `windlass dev --native RECONCILER` first") {
		t.Errorf("got %v", err)
	}
}

func TestAResultAndAnErrorHaveTheirOutcome(t *testing.T) {
	failed := errors.New("no")
	for _, c := range []struct {
		result Result
		err    error
		want   string
	}{
		{Result{}, nil, `{"Ok":"Done"}`},
		{Result{Requeue: true}, nil, `{"Ok":{"RequeueAfterMs":0}}`},
		{Result{}, failed, `{"Err":{"Retry":"no"}}`},
		{Result{}, Terminal(failed), `{"Err":{"Terminal":"no"}}`},
	} {
		if got, _ := json.Marshal(outcome(c.result, c.err)); string(got) != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
