// Tests of the guest, in a cluster in memory: plain `go test`.
package main

import (
	"testing"

	"windlass.dev/windlass"
	"windlass.dev/windlass/windlasstest"
)

var (
	kind = {{type}}{}.GVK()
	key  = windlass.ObjectKey{Namespace: "default", Name: "example"}
	// own and ofCopy are the keys of its ConfigMap and of the copy.
	own    = key.Sibling("example-{{singular}}")
	ofCopy = windlass.ObjectKey{Namespace: "copies", Name: "default.example-{{singular}}"}
)

// example is a cluster with an object that has a copy.
func example(t *testing.T) *windlasstest.MemoryCluster {
	alpha := windlasstest.NewFleet(t).Cluster("alpha")
	alpha.Put(windlass.NewObject(windlass.GVK("v1", "Namespace"), windlass.ObjectKey{Name: "copies"}))
	object := windlass.NewObject(kind, key)
	object.Set(map[string]any{"text": "hello", "copyTo": "copies"}, "spec")
	alpha.Put(object)
	return alpha
}

func TestAnObjectHasAConfigMapAndACopy(t *testing.T) {
	alpha := example(t)
	if result, err := alpha.Reconcile(guest{}, key); err != nil || result != (windlass.Result{}) {
		t.Fatalf("got %v, %v", result, err)
	}
	for _, key := range []windlass.ObjectKey{own, ofCopy} {
		if text := alpha.Object(configMap, key).String("data", "text"); text != "hello" {
			t.Errorf("%v: got %q", key, text)
		}
	}

	object := alpha.Object(kind, key)
	if ready := object.Condition("Ready"); ready == nil || ready.Status != windlass.True {
		t.Errorf("got %v", ready)
	}
	if seen := object.Int("status", "observedGeneration"); seen != object.Int("metadata", "generation") {
		t.Errorf("got %d", seen)
	}

	if writes := alpha.ReconciledWrites(guest{}, key); writes != 0 {
		t.Errorf("got %d writes", writes)
	}
}

func TestTheCopyGoesBeforeTheObject(t *testing.T) {
	alpha := example(t)
	if _, err := alpha.Reconcile(guest{}, key); err != nil {
		t.Fatal(err)
	}
	alpha.Remove(kind, key)
	if alpha.Object(kind, key) == nil {
		t.Fatal("the finalizer does not hold it")
	}

	if _, err := alpha.Reconcile(guest{}, key); err != nil {
		t.Fatal(err)
	}
	if alpha.Object(configMap, ofCopy) != nil || alpha.Object(kind, key) != nil {
		t.Errorf("got %v", alpha.Objects())
	}
}
