//go:build !wasip1

package windlass_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"windlass.dev/windlass"
	"windlass.dev/windlass/windlasstest"
)

var (
	maps = windlass.GVK("v1", "ConfigMap")
	key  = windlass.ObjectKey{Namespace: "default", Name: "a"}
)

type ConfigMap struct {
	windlass.ObjectMeta `json:"metadata"`
	Data                map[string]string `json:"data,omitempty"`
}

func (ConfigMap) GVK() windlass.GroupVersionKind { return maps }

func object(t *testing.T, text string) windlass.Object {
	t.Helper()
	var object windlass.Object
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestKindsKeysAndRequestsPrintAsPeopleWriteThem(t *testing.T) {
	request := windlass.Request{Cluster: "prod/eu", ObjectKey: key}
	for got, want := range map[string]string{
		windlass.GVK("apps/v1", "Deployment").String(): "apps/v1/Deployment",
		maps.String():                             "v1/ConfigMap",
		maps.APIVersion():                         "v1",
		key.Sibling("b").String():                 "default/b",
		windlass.ObjectKey{Name: "node"}.String(): "node",
		request.String():                          "cluster://prod%2Feu/default/a",
		windlass.ByIndex("color").String():        "by-index color",
		windlass.ControllerOwner.String():         "controller-owner",
		(&windlass.APIError{Code: "denied", Message: "no rule"}).Error(): "denied: no rule",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAnObjectIsWrittenAsItWasRead(t *testing.T) {
	text := `{"apiVersion":"v1","kind":"X","metadata":{"name":"a"},"big":5000000000,"max":9223372036854775807,"part":0.5,"none":null}`
	written, err := json.Marshal(object(t, text))
	if err != nil {
		t.Fatal(err)
	}
	var before, after map[string]json.RawMessage
	_ = json.Unmarshal([]byte(text), &before)
	if err := json.Unmarshal(written, &after); err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("got %s, %v", written, err)
	}
}

func TestAnObjectAnswersWhatIsAtAPathAndSetsIt(t *testing.T) {
	o := object(t, `{"metadata":{"name":"a","namespace":"default","labels":{"app":"x"},"deletionTimestamp":"now"},"spec":{"replicas":3}}`)
	if o.Key() != key || o.Label("app") != "x" || o.Label("none") != "" || !o.Deleting() || o.Int("spec", "replicas") != 3 {
		t.Errorf("got %v", o)
	}
	if o.At("spec", "replicas", "deeper") != nil || o.At("no", "where") != nil {
		t.Error("an absent path has a value")
	}
	o.Set("green", "data", "color")
	if o.String("data", "color") != "green" {
		t.Errorf("got %v", o)
	}
}

func TestAControllerIsSetBesideOtherOwnersReplacesItselfAndRefusesAnother(t *testing.T) {
	owner := object(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","uid":"1"}}`)
	other := object(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"default","uid":"2"}}`)

	untyped := object(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","namespace":"default","ownerReferences":[
		{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"3"}]}}`)
	var typed windlass.ObjectMeta
	typed.Name, typed.Namespace, typed.OwnerReferences = "b", "default", []windlass.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "3"}}
	for range 2 {
		if err := errors.Join(untyped.SetController(owner), typed.SetController(owner)); err != nil {
			t.Fatal(err)
		}
	}
	written, err := json.Marshal(typed)
	if err != nil {
		t.Fatal(err)
	}
	references := untyped.At("metadata", "ownerReferences")
	if !reflect.DeepEqual(references, object(t, string(written)).At("ownerReferences")) || len(references.([]any)) != 2 {
		t.Errorf("got %v and %s", references, written)
	}
	if found := untyped.Controller(); found == nil || found.UID != owner.UID() || !found.BlockOwnerDeletion {
		t.Errorf("got %v", found)
	}
	refused := untyped.SetController(other)
	if !windlass.IsConflict(refused) || refused.Error() != "conflict: ConfigMap default/b has a controller already: ConfigMap a" {
		t.Errorf("got %v", refused)
	}
	if !windlass.IsConflict(typed.SetController(other)) || len(typed.OwnerReferences) != 2 {
		t.Errorf("got %v", typed.OwnerReferences)
	}
}

// Named has a kind of its own, as structs of other packages have.
type Named struct {
	APIVersion          string `json:"apiVersion,omitempty"`
	Kind                string `json:"kind"`
	windlass.ObjectMeta `json:"metadata"`
}

func (Named) GVK() windlass.GroupVersionKind { return maps }

func TestAStructThatNamesHalfOfItsKindIsWrittenWithEachNameOnce(t *testing.T) {
	for _, named := range []Named{{}, {APIVersion: "v1"}, {Kind: "ConfigMap"}, {APIVersion: "v1", Kind: "ConfigMap"}} {
		named.Name = "a"
		text := windlass.OpCreate(named).Text
		if strings.Count(text, `"apiVersion":"v1"`) != 1 || strings.Count(text, `"kind":"ConfigMap"`) != 1 || strings.Contains(text, `""`) {
			t.Errorf("got %s", text)
		}
	}
}

func TestAStructIsWrittenWithItsKindAndReadBack(t *testing.T) {
	script := windlasstest.New(t)
	alpha := script.Cluster("alpha")
	alpha.ExpectApply(object(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"},"data":{"color":"red"}}`),
		windlass.Force).Return(object(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"7"}}`))

	wanted := &ConfigMap{Data: map[string]string{"color": "red"}}
	wanted.Name, wanted.Namespace = "a", "default"
	stored, err := windlass.Apply(alpha.Client(), wanted, windlass.Force)
	if err != nil || stored.UID != "7" {
		t.Errorf("got %v, %v", stored, err)
	}
}

type Site struct {
	windlass.ObjectMeta `json:"metadata"`
	Spec                struct {
		Host  string `json:"host"`
		Ports []struct {
			Port int `json:"port"`
		} `json:"ports,omitempty"`
	} `json:"spec"`
	Note string `json:"note,omitempty"`
}

func (Site) GVK() windlass.GroupVersionKind { return windlass.GVK("x/v1", "Site") }

func TestAnUpdateKeepsWhatTheStructDoesNotKnow(t *testing.T) {
	read := object(t, `{"apiVersion":"x/v1","kind":"Site","note":"goes","metadata":{"namespace":"default","name":"a","uid":"u","new":[1]},
		"spec":{"host":"old","ports":[{"port":80,"name":"web"}],"big":9223372036854775807},"other":{"x":1}}`)
	written := object(t, `{"apiVersion":"x/v1","kind":"Site","metadata":{"namespace":"default","name":"a","uid":"u","new":[1]},
		"spec":{"host":"new","ports":[{"port":81,"name":"web"}],"big":9223372036854775807},"other":{"x":1}}`)
	script := windlasstest.New(t)
	cluster := script.Cluster("c")
	cluster.ExpectGet(Site{}.GVK(), key).Return(read)
	cluster.ExpectUpdate(written).Return(written)
	client := cluster.Client()
	site, err := windlass.Get[Site](client, key)
	if err != nil {
		t.Fatal(err)
	}
	site.Spec.Host, site.Note, site.Spec.Ports[0].Port = "new", "", 81
	if _, err := windlass.Update(client, site); err != nil {
		t.Fatal(err)
	}

	// Another object is made of it: nothing of the first one is in it.
	cluster.ExpectGet(Site{}.GVK(), key).Return(read)
	cluster.ExpectUpdate(object(t, `{"apiVersion":"x/v1","kind":"Site","metadata":{"name":"b"},"spec":{"host":"old"}}`)).Return(read)
	site, err = windlass.Get[Site](client, key)
	if err != nil {
		t.Fatal(err)
	}
	other := Site{ObjectMeta: windlass.ObjectMeta{Name: "b"}}
	other.Spec.Host = site.Spec.Host
	if _, err := windlass.Update(client, &other); err != nil {
		t.Fatal(err)
	}
}

func TestAnAbsentObjectIsNilAndNoError(t *testing.T) {
	alpha := windlasstest.New(t).Cluster("alpha")
	alpha.ExpectGet(maps, key, windlass.Live)
	alpha.ExpectGet(maps, key)
	typed, err := windlass.Get[ConfigMap](alpha.Client(), key, windlass.Live)
	if typed != nil || err != nil {
		t.Errorf("got %v, %v", typed, err)
	}
	untyped, err := alpha.Client().Get(maps, key)
	if untyped != nil || err != nil {
		t.Errorf("got %v, %v", untyped, err)
	}
}

func TestAListIsReadPageByPageUntilNobodyAsks(t *testing.T) {
	alpha := windlasstest.New(t).Cluster("alpha")
	named := func(name string) windlass.Object { return windlass.NewObject(maps, key.Sibling(name)) }
	options := []windlass.ListOption{windlass.InNamespace("default"), windlass.Labels("app=x"), windlass.Limit(2)}
	alpha.ExpectList(maps, options...).Return(named("a"), named("b")).Continue("more")
	alpha.ExpectList(maps, append(options, windlass.Continue("more"))...).Return(named("c")).Continue("still more")

	var names []string
	for found, err := range windlass.ListAll[ConfigMap](alpha.Client(), options...) {
		if err != nil {
			t.Fatal(err)
		}
		if names = append(names, found.Name); found.Name == "c" {
			break // the third page is never asked for
		}
	}
	if got := strings.Join(names, ""); got != "abc" {
		t.Errorf("got %s", got)
	}
}

func TestAListEndsAfterAnError(t *testing.T) {
	alpha := windlasstest.New(t).Cluster("alpha")
	alpha.ExpectList(maps).Return(windlass.NewObject(maps, key)).Continue("more")
	alpha.ExpectList(maps, windlass.Continue("more")).Fail(windlasstest.Error(windlass.CodeExpired, "too old"))
	var seen int
	var last error
	for _, err := range alpha.Client().ListAll(maps) {
		seen, last = seen+1, err
	}
	if seen != 2 || !windlass.IsExpired(last) {
		t.Errorf("got %d, %v", seen, last)
	}
}

func TestAnAPIErrorIsFoundInAnErrorThatWrapsIt(t *testing.T) {
	after := 2 * time.Second
	refused := &windlass.APIError{Code: windlass.CodeConflict, Status: 409, Reason: "Conflict", RetryAfter: &after}
	wrapped := fmt.Errorf("greeting: %w", refused)
	var found *windlass.APIError
	if !errors.As(wrapped, &found) || *found.RetryAfter != after || found.Status != 409 {
		t.Errorf("got %v", found)
	}
	if !windlass.IsConflict(wrapped) || windlass.IsNotFound(wrapped) || windlass.CodeOf(errors.New("other")) != "" {
		t.Error("the error has no code")
	}
	final := windlass.Terminal(wrapped)
	if !windlass.IsTerminal(fmt.Errorf("more: %w", final)) || windlass.IsTerminal(wrapped) || !windlass.IsConflict(final) {
		t.Error("a terminal error is not recognized, or has lost its cause")
	}
	if final.Error() != wrapped.Error() || windlass.Terminal(nil) != nil {
		t.Errorf("got %v", final)
	}
	gone := windlasstest.Error(windlass.CodeNotFound, "none")
	if windlass.IgnoreNotFound(gone) != nil || windlass.IgnoreNotFound(refused) == nil {
		t.Error("the wrong error is ignored")
	}
}

func TestABatchKeepsItsOrderAroundWhatCannotBeEncoded(t *testing.T) {
	script := windlasstest.New(t)
	alpha, beta := script.Cluster("alpha"), script.Cluster("beta")
	there := windlass.NewObject(maps, key)
	alpha.ExpectGet(maps, key).Return(there)
	alpha.ExpectDelete(maps, key, windlass.IfUID("7"), windlass.Foreground).Fail(windlasstest.Error(windlass.CodeConflict, "another"))
	alpha.ExpectList(maps).Return(there)
	replies := alpha.Client().Batch(
		windlass.OpGet(maps, key),
		windlass.OpCreate(windlass.Object{"kind": "Nameless"}),
		windlass.OpDelete(maps, key, windlass.IfUID("7"), windlass.Foreground),
		windlass.OpList(maps),
	)
	if found, err := replies[0].Object(); err != nil || found.Key() != key {
		t.Errorf("got %v, %v", found, err)
	}
	if !windlass.IsInvalid(replies[1].Err) || !windlass.IsConflict(replies[2].Err) {
		t.Errorf("got %v, %v", replies[1].Err, replies[2].Err)
	}
	if found, err := replies[3].Objects(); err != nil || len(found) != 1 {
		t.Errorf("got %v, %v", found, err)
	}

	alpha.ExpectGet(maps, key)
	beta.ExpectGet(maps, key).Return(there)
	replies = windlass.BatchAcross(
		windlass.In{Cluster: "alpha", Operation: windlass.OpGet(maps, key)},
		windlass.In{Cluster: "alpha", Operation: windlass.OpApply(windlass.Object{})},
		windlass.In{Cluster: "beta", Operation: windlass.OpGet(maps, key)},
	)
	var typed ConfigMap
	if found, err := replies[2].Decode(&typed); !found || err != nil || typed.Name != "a" {
		t.Errorf("got %v, %v, %v", found, err, typed)
	}
	if found, err := replies[0].Object(); found != nil || err != nil || replies[1].Err == nil {
		t.Errorf("got %v, %v, %v", found, err, replies[1].Err)
	}
}

func TestTheConfigIsReadOverItsDefaults(t *testing.T) {
	script := windlasstest.New(t)
	config := struct {
		Greeting string
		Count    int
	}{Greeting: "hello"}
	script.Config(map[string]any{"count": 3})
	if err := windlass.Config(&config); err != nil || config.Greeting != "hello" || config.Count != 3 {
		t.Errorf("got %v, %v", config, err)
	}
	script.Config(map[string]any{"greeting": 7})
	if err := windlass.Config(&config); err == nil || !strings.HasPrefix(err.Error(), "config: ") {
		t.Errorf("got %v", err)
	}
}

func TestTheTimeIsTheHosts(t *testing.T) {
	script := windlasstest.New(t)
	now := time.Date(2027, 5, 4, 3, 2, 1, 7_000_000, time.UTC)
	script.Now(now)
	if got := windlass.Now(); !got.Equal(now) {
		t.Errorf("got %v", got)
	}
}

func TestSlogWritesToTheHostsLogWithFlatNames(t *testing.T) {
	script := windlasstest.New(t)
	slog.With("who", "a").WithGroup("of").Warn("looked", "size", 2, slog.Group("owner", "name", "x"), slog.Group("", "in", true))
	want := windlasstest.Line{
		Level: slog.LevelWarn, Message: "looked",
		Fields: map[string]string{"who": "a", "of.size": "2", "of.owner.name": "x", "of.in": "true"},
	}
	if got := script.Logs(); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("got %v", got)
	}
}

func TestOtherClustersAreOpenedOrRefused(t *testing.T) {
	script := windlasstest.New(t)
	script.Clusters(windlass.ClusterInfo{Name: "beta", Ready: true})
	script.Cluster("beta").ExpectDeleteCollection(maps, windlass.Selection{Namespace: "default"}, windlass.DryRun)
	script.RefuseOpen("gamma", windlasstest.Error(windlass.CodeDenied, "no rule"))
	infos, err := windlass.Clusters("tier=first")
	if err != nil || len(infos) != 1 {
		t.Fatalf("got %v, %v", infos, err)
	}
	beta, err := windlass.Open(infos[0].Name)
	if err != nil || beta.Name() != "beta" {
		t.Fatalf("got %v, %v", beta, err)
	}
	if err := beta.DeleteCollection(maps, windlass.Selection{Namespace: "default"}, windlass.DryRun); err != nil {
		t.Error(err)
	}
	if _, err := windlass.Open("gamma"); !windlass.IsDenied(err) {
		t.Errorf("got %v", err)
	}
}

func TestEventsAreAboutObjectsOfEverySort(t *testing.T) {
	alpha := windlasstest.New(t).Cluster("alpha")
	about := &ConfigMap{}
	about.Name, about.Namespace = key.Name, key.Namespace
	alpha.Client().Event(about, "Checked", "all is well")
	alpha.Client().Warn(windlass.NewObject(maps, key), "Odd", "not quite")
	want := []windlass.Event{
		{Kind: maps, Key: key, Reason: "Checked", Action: "Reconcile", Note: "all is well"},
		{Kind: maps, Key: key, Reason: "Odd", Action: "Reconcile", Note: "not quite", Warning: true},
	}
	if got := alpha.Events(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}
