//go:build !wasip1

package windlasstest

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"windlass.dev/windlass"
)

// keeper has a Secret for each datum of a Vault, by [windlass.Dependents].
type keeper struct{ parts windlass.Dependents }

var (
	vaults  = windlass.GVK("example.com/v1", "Vault")
	secrets = windlass.GVK("v1", "Secret")
)

func (keeper) Describe() (windlass.Description, error) { return windlass.Description{}, nil }

func (k keeper) Reconcile(req windlass.Request, cluster *windlass.Cluster) (done windlass.Result, err error) {
	primary, err := cluster.Get(vaults, req.ObjectKey)
	if err != nil || primary == nil {
		return done, err
	}
	var desired []windlass.Identified
	for name, value := range primary["spec"].(map[string]any) {
		secret := windlass.NewObject(secrets, req.Sibling(name))
		secret.Set(value, "data", "copied")
		desired = append(desired, secret)
	}
	return k.parts.Reconcile(cluster, primary, desired...)
}

func TestDependentsInMemory(t *testing.T) {
	alpha := NewFleet(t).Cluster("alpha")
	k := keeper{windlass.Dependents{Kinds: []windlass.GroupVersionKind{secrets}}}
	primary := windlass.NewObject(vaults, key)
	primary["spec"] = map[string]any{"one": "b25l", "two": "dHdv"}
	alpha.Put(primary)
	if writes := alpha.ReconciledWrites(k, key); writes != 3 { // two dependents and the status
		t.Errorf("%d writes: %v", writes, alpha.Calls())
	}
	if writes := alpha.ReconciledWrites(k, key); writes != 0 {
		t.Errorf("%d writes, and nothing to do: %v", writes, alpha.Calls())
	}
	if condition := alpha.Object(vaults, key).Condition("Ready"); condition == nil || condition.Status != windlass.StatusOf(true) {
		t.Errorf("got %v", condition)
	}
	delete(primary["spec"].(map[string]any), "two")
	alpha.Put(primary)
	alpha.ReconciledWrites(k, key)
	if alpha.Object(secrets, key.Sibling("one")) == nil || alpha.Object(secrets, key.Sibling("two")) != nil {
		t.Errorf("got %v", alpha.Objects())
	}
	alpha.Remove(vaults, key)
	if left := alpha.Objects(); len(left) != 0 {
		t.Errorf("the owner is gone, and not %v", left)
	}
}

// visitor ensures a greeting in each cluster of a region, and tells about it.
type visitor struct{}

func (visitor) Describe() (windlass.Description, error) {
	var config struct{ Region string }
	err := windlass.Config(&config)
	return windlass.Description{Title: config.Region}, err
}

func (visitor) Reconcile(req windlass.Request, cluster *windlass.Cluster) (done windlass.Result, err error) {
	infos, err := windlass.Clusters("region=eu")
	if err != nil {
		return done, err
	}
	greeting := windlass.NewObject(configMaps, req.Sibling("greeting"))
	for _, info := range infos {
		there, err := windlass.Open(info.Name)
		if err != nil {
			return done, err
		}
		if _, err := there.Ensure(greeting); err != nil {
			return done, err
		}
		slog.Info("greeted", "in", info.Name, "at", windlass.Now())
	}
	cluster.Event(greeting, "Greeted", "everywhere")
	return done, windlass.NotReady(time.Minute, "waits for an answer")
}

func TestAGuestOfSeveralClustersInMemory(t *testing.T) {
	fleet := NewFleet(t)
	fleet.Config(map[string]any{"region": "eu"})
	fleet.Now(time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC))
	local, alpha, beta, gamma := fleet.Cluster(""), fleet.Cluster("alpha"), fleet.Cluster("beta"), fleet.Cluster("gamma")
	alpha.Label("region", "eu")
	beta.Label("region", "eu")
	gamma.Label("region", "us")
	result, err := local.Reconcile(visitor{}, key)
	if err != nil || result.RequeueAfter != time.Minute {
		t.Errorf("got %v, %v", result, err)
	}
	if local.ReconciledWrites(visitor{}, key); alpha.Writes() != 1 || beta.Writes() != 1 || len(gamma.Calls()) != 0 {
		t.Errorf("got %v, %v, %v", alpha.Calls(), beta.Calls(), gamma.Calls())
	}
	if calls := alpha.Calls(); !slices.Equal(calls, []windlass.Verb{windlass.VerbGet, windlass.VerbApply, windlass.VerbGet}) {
		t.Errorf("got %v", calls)
	}
	if events := local.Events(); len(events) != 2 || events[0].Reason != "Greeted" || events[0].Action != "Reconcile" {
		t.Errorf("got %v", events)
	}
	lines := fleet.Logs()
	want := map[string]string{"in": "alpha", "at": "2026-02-03 04:05:06 +0000 UTC"}
	if len(lines) != 6 || lines[0].Message != "greeted" || !reflect.DeepEqual(lines[0].Fields, want) ||
		lines[2].Message != "not ready yet" {
		t.Errorf("got %v", lines)
	}
	if description, err := fleet.Describe(visitor{}); err != nil || description.Title != "eu" {
		t.Errorf("got %v, %v", description, err)
	}
}

func TestAClusterThatTheFleetDoesNotHaveIsDenied(t *testing.T) {
	fleet := NewFleet(t)
	fleet.Cluster("alpha").Put(windlass.NewObject(configMaps, key))
	if _, err := windlass.Local(); !windlass.IsDenied(err) {
		t.Errorf("got %v", err)
	}
	message := `this fleet has no cluster "gamma": the test names it with Fleet.Cluster`
	if _, err := windlass.Open("gamma"); !windlass.IsDenied(err) || !strings.HasSuffix(err.Error(), message) {
		t.Errorf("got %v", err)
	}
	if _, err := windlass.Clusters("a like (b)"); !windlass.IsInvalid(err) {
		t.Errorf("got %v", err)
	}
	replies := windlass.BatchAcross(
		windlass.In{Cluster: "nowhere", Operation: windlass.OpGet(configMaps, key)},
		windlass.In{Cluster: "alpha", Operation: windlass.OpGet(configMaps, key)},
		windlass.In{Cluster: "alpha", Operation: windlass.OpList(configMaps, windlass.MetadataOnly)},
		windlass.In{Cluster: "alpha", Operation: windlass.OpDelete(configMaps, key)},
	)
	object, err := replies[1].Object()
	objects, failed := replies[2].Objects()
	if !windlass.IsDenied(replies[0].Err) || err != nil || object.Key() != key || failed != nil || len(objects) != 1 || replies[3].Err != nil {
		t.Errorf("got %+v", replies)
	}
}

func TestClustersChangeLabelsFailHealLeaveAndJoinAgain(t *testing.T) {
	fleet := NewFleet(t)
	fleet.Cluster("alpha")
	beta := fleet.Cluster("beta")
	beta.Put(windlass.NewObject(configMaps, key))
	known := func(labels string) string {
		infos, err := windlass.Clusters(windlass.Labels(labels))
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, info := range infos {
			fmt.Fprintf(&text, "%s %v;", info.Name, info.Ready)
		}
		return text.String()
	}
	read := func() error {
		opened, err := windlass.Open("beta")
		if err != nil {
			return err
		}
		_, err = opened.Get(configMaps, key)
		return err
	}
	beta.Label("region", "eu")
	if got := known("region=eu"); got != "beta true;" {
		t.Errorf("got %v", got)
	}
	for _, failure := range []ServerFailure{Errors, Unreachable} {
		beta.Fail(failure)
		if err := read(); err == nil {
			t.Errorf("a cluster that fails (%s) answers", failure)
		}
	}
	if got := known("region=eu"); got != "beta false;" {
		t.Errorf("got %v", got)
	}
	beta.Heal()
	if got, err := known("region=eu"), read(); got != "beta true;" || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	beta.Unlabel("region")
	if got := known("region=eu"); got != "" {
		t.Errorf("got %v", got)
	}
	beta.Leave()
	if got, err := known(""), read(); got != "alpha true;" || !windlass.IsDenied(err) {
		t.Errorf("got %v, %v", got, err)
	}
	fleet.Cluster("beta")
	if err := read(); err != nil {
		t.Errorf("it does not keep its objects: %v", err)
	}
}

// The race detector sees a read without the lock.
func TestConfigAndTimeCanChangeWhileAGuestReadsThem(t *testing.T) {
	fleet := NewFleet(t)
	if now := windlass.Now(); !now.Equal(time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC)) {
		t.Errorf("got %v", now)
	}
	read := make(chan error)
	go func() {
		var config struct{ Region string }
		windlass.Now()
		read <- windlass.Config(&config)
	}()
	fleet.Config(map[string]any{"region": "eu"})
	fleet.Now(time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC))
	if err := <-read; err != nil {
		t.Error(err)
	}
}

func TestFailNextFailsOneCallOfItsVerb(t *testing.T) {
	alpha := NewFleet(t).Cluster("alpha")
	client := alpha.Client()
	alpha.FailNext(windlass.VerbGet, Error(windlass.CodeThrottled, "slow down"))
	alpha.FailNext(VerbDeleteCollection, Error(windlass.CodeForbidden, "no"))
	if _, err := client.Create(windlass.NewObject(configMaps, key)); err != nil {
		t.Error(err)
	}
	if _, err := client.Get(configMaps, key); windlass.CodeOf(err) != windlass.CodeThrottled {
		t.Errorf("got %v", err)
	}
	if object, err := client.Get(configMaps, key); err != nil || object == nil {
		t.Errorf("got %v, %v", object, err)
	}
	if err := client.DeleteCollection(configMaps, windlass.Selection{}); !windlass.IsForbidden(err) || alpha.Writes() != 2 {
		t.Errorf("got %v, %v", err, alpha.Calls())
	}
}

func TestEveryCallReachesTheServer(t *testing.T) {
	fleet := NewFleet(t)
	alpha := fleet.Cluster("alpha")
	sites := windlass.GVK("example.com/v1", "Site")
	fleet.Define(sites, true)
	client, object := alpha.Client(), windlass.NewObject(sites, key)
	object.Set("one", "spec", "host")
	made, err := client.Create(object)
	if err != nil || made.UID() == "" || made.ResourceVersion() == "" {
		t.Fatal(made, err)
	}
	if _, err := client.Create(object); !windlass.IsAlreadyExists(err) {
		t.Errorf("got %v", err)
	}
	made.Set("two", "spec", "host")
	if _, err := client.Update(made); err != nil {
		t.Error(err)
	}
	made.Set("three", "spec", "host")
	var failed *windlass.APIError
	if _, err := client.Update(made); !errors.As(err, &failed) || failed.Code != windlass.CodeConflict || failed.Status != 409 {
		t.Errorf("got %v", err)
	}
	ready := windlass.MergePatch(map[string]any{"status": map[string]any{"ready": true}})
	if _, err := client.Patch(sites, key, ready, windlass.Status); err != nil {
		t.Error(err)
	}
	replace := windlass.JSONPatch(windlass.PatchOperation{Op: "replace", Path: "/spec/host", Value: "four"})
	if _, err := client.Patch(sites, key, replace); err != nil {
		t.Error(err)
	}
	object.Set("five", "spec", "host")
	if _, err := client.Apply(object); !windlass.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	if _, err := client.Apply(object, windlass.Force); err != nil {
		t.Error(err)
	}
	read, err := client.Get(sites, key, windlass.Live)
	if err != nil || read.String("spec", "host") != "five" || read.At("status", "ready") != true {
		t.Errorf("got %v, %v", read, err)
	}
	if stored := alpha.Object(sites, key); stored.String("spec", "host") != "five" {
		t.Errorf("got %v", stored)
	}
	page, err := client.List(sites, windlass.InNamespace("default"), windlass.Fields("metadata.name=a"), windlass.MetadataOnly)
	if err != nil || len(page.Items) != 1 || page.Items[0].At("spec") != nil {
		t.Errorf("got %v, %v", page, err)
	}
	if _, err := client.List(sites, windlass.IndexedBy{Name: "host", Value: "five"}); !windlass.IsInvalid(err) {
		t.Errorf("got %v", err)
	}
	if err := client.Delete(sites, key, windlass.IfUID("another")); !windlass.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	if err := client.Delete(sites, key, windlass.IfUID(made.UID()), windlass.Background); err != nil {
		t.Error(err)
	}
	if err := client.Delete(sites, key); !windlass.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	if _, err := client.Get(windlass.GVK("nowhere.example.com/v1", "None"), key); windlass.CodeOf(err) != windlass.CodeUnknownKind {
		t.Errorf("got %v", err)
	}
}

func TestWithoutTheProgramATestSaysHowToGetIt(t *testing.T) {
	t.Setenv(variable, "/nowhere/windlass")
	_, err := start()
	if err == nil || !strings.Contains(err.Error(), "put it on the PATH, or name it in WINDLASS_BIN") {
		t.Errorf("got %v", err)
	}
}

func TestADryRunStoresNothing(t *testing.T) {
	alpha := NewFleet(t).Cluster("alpha")
	client, object := alpha.Client(), windlass.NewObject(configMaps, key)
	if made, err := client.Create(object, windlass.DryRun); err != nil || made.Key() != key || len(alpha.Objects()) != 0 {
		t.Errorf("got %v, %v", made, err)
	}
	alpha.Put(object)
	if err := client.DeleteCollection(configMaps, windlass.Selection{}, windlass.DryRun); err != nil || len(alpha.Objects()) != 1 {
		t.Errorf("got %v, %v", err, alpha.Objects())
	}
}

// What a test or a guest does with an object that it has does not change the stored one.
func TestObjectsAreCopies(t *testing.T) {
	alpha := NewFleet(t).Cluster("alpha")
	object := windlass.NewObject(configMaps, key)
	alpha.Put(object)
	object.Set("other", "metadata", "labels", "l")
	alpha.Object(configMaps, key).Set("other", "metadata", "labels", "l")
	alpha.Objects()[0].Set("other", "metadata", "labels", "l")
	if label := alpha.Object(configMaps, key).Label("l"); label != "" {
		t.Errorf("got %q", label)
	}
}

func TestListAllGoesThroughEveryPage(t *testing.T) {
	alpha := NewFleet(t).Cluster("alpha")
	for _, name := range []string{"c", "a", "b", "e", "d"} {
		alpha.Put(struct {
			APIVersion string              `json:"apiVersion"`
			Kind       string              `json:"kind"`
			Metadata   windlass.ObjectMeta `json:"metadata"`
		}{"v1", "ConfigMap", windlass.ObjectMeta{Name: name}})
	}
	var names []string
	for object, err := range alpha.Client().ListAll(configMaps, windlass.Limit(2)) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, object.Key().Name)
	}
	if !slices.Equal(names, []string{"a", "b", "c", "d", "e"}) || len(alpha.Calls()) != 3 {
		t.Errorf("got %v, %v", names, alpha.Calls())
	}
}

func TestMisuseOfAFleetEndsTheTest(t *testing.T) {
	for name, misuse := range map[string]func(*Fleet){
		"without a name": func(f *Fleet) { f.Cluster("alpha").Put(map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}) },
		"without a kind": func(f *Fleet) { f.Cluster("alpha").Put(windlass.Object{"metadata": map[string]any{"name": "a"}}) },
		"no error":       func(f *Fleet) { f.Cluster("alpha").FailNext(windlass.VerbGet, nil) },
		"no verb":        func(f *Fleet) { f.Cluster("alpha").FailNext("watch", Error(windlass.CodeThrottled, "no")) },
		"no JSON":        func(f *Fleet) { f.Config(func() {}) },
	} {
		said := failuresOf(func(f *fake) {
			misuse(NewFleet(f))
			t.Errorf("%s: the test goes on", name)
		})
		if said == "" {
			t.Errorf("%s: nothing fails", name)
		}
	}
}
