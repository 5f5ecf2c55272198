//go:build !wasip1

package windlass_test

import (
	"testing"

	"windlass.dev/windlass"
	"windlass.dev/windlass/windlasstest"
)

var site = windlass.ObjectKey{Namespace: "default", Name: "site"}

// keeper keeps a page beside a website, by structs alone. The struct of a website is what `windlass types` writes.
type keeper struct{}

var kept = windlass.Dependents{Kinds: []windlass.GroupVersionKind{Page{}.GVK()}}

// Page is a dependent.
type Page struct {
	windlass.ObjectMeta `json:"metadata"`
	Data                map[string]string `json:"data,omitempty"`
}

// GVK is its kind.
func (Page) GVK() windlass.GroupVersionKind { return windlass.GVK("v1", "ConfigMap") }

func (keeper) Describe() (windlass.Description, error) { return windlass.Description{}, nil }

func (keeper) Reconcile(req windlass.Request, cluster *windlass.Cluster) (done windlass.Result, err error) {
	found, err := windlass.Get[Website](cluster, req.ObjectKey)
	if err != nil || found == nil {
		return done, err
	}
	page := &Page{Data: map[string]string{"host": found.Spec.Host}}
	page.Name, page.Namespace = req.Name, req.Namespace
	url := "http://" + found.Spec.Host
	return kept.WithStatus(WebsiteStatus{Url: &url}).Reconcile(cluster, found, page)
}

// during is a reconcile: what it does has a host.
type during func(*windlass.Cluster)

func (during) Describe() (windlass.Description, error) { return windlass.Description{}, nil }

func (d during) Reconcile(_ windlass.Request, cluster *windlass.Cluster) (done windlass.Result, err error) {
	d(cluster)
	return done, nil
}

func website(t *testing.T, fields string) *Website {
	t.Helper()
	made, err := windlass.As[Website](object(t, `{"apiVersion":"example.windlass.dev/v1","kind":"Website",
		"metadata":{"name":"site","namespace":"default","uid":"1","resourceVersion":"7","generation":3},"spec":{"host":"a.b","replicas":1}`+fields+`}`))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestDependentsTakeStructs(t *testing.T) {
	fleet := windlasstest.NewFleet(t)
	alpha := fleet.Cluster("alpha")
	alpha.Put(object(t, `{"apiVersion":"example.windlass.dev/v1","kind":"Website","metadata":{"name":"site","namespace":"default"},"spec":{"host":"a.b"}}`))
	if _, err := alpha.Reconcile(keeper{}, site); err != nil {
		t.Fatal(err)
	}
	page := alpha.Object(Page{}.GVK(), site)
	if page.String("data", "host") != "a.b" || page.Controller().Name != "site" {
		t.Errorf("got %v", page)
	}
	found := alpha.Object(Website{}.GVK(), site)
	if ready := found.Condition("Ready"); found.String("status", "url") != "http://a.b" || ready == nil || ready.Status != windlass.True {
		t.Errorf("got %v", found)
	}
}

func TestAConditionOfAStruct(t *testing.T) {
	condition := windlass.Condition{Type: "Ready", Status: windlass.True, Reason: "Serves", Message: "it serves"}
	run := during(func(*windlass.Cluster) {
		typed := website(t, `,"status":{"url":"x","conditions":[
			{"type":"Other","status":"True","reason":"A","message":"","lastTransitionTime":"2020-01-01T00:00:00Z"}]}`)
		typed.Labels = map[string]string{"kept": "yes"}
		for _, want := range []bool{true, false} {
			if changed, err := windlass.SetCondition(typed, condition); err != nil || changed != want {
				t.Fatalf("got %v, %v", changed, err)
			}
		}
		all := typed.Status.Conditions
		if len(all) != 2 || all[0].Reason != "A" || all[1].Reason != "Serves" || *all[1].ObservedGeneration != 3 || *typed.Status.Url != "x" {
			t.Errorf("got %+v", all)
		}
		if found, err := windlass.ConditionOf(typed, "Ready"); err != nil || found.Message != "it serves" || typed.Labels["kept"] != "yes" {
			t.Errorf("got %v, %v", found, err)
		}
		without := &Page{}
		without.Name, without.Namespace = "site", "default"
		if _, err := windlass.SetCondition(without, condition); !windlass.IsInvalid(err) {
			t.Errorf("got %v", err)
		}
	})
	if _, err := windlasstest.NewFleet(t).Cluster("alpha").Reconcile(run, site); err != nil {
		t.Error(err)
	}
}

// Plain has conditions of the SDK's type.
type Plain struct {
	windlass.ObjectMeta `json:"metadata"`
	Status              struct {
		Conditions []windlass.Condition `json:"conditions,omitempty"`
	} `json:"status"`
}

func (Plain) GVK() windlass.GroupVersionKind { return windlass.GVK("a.b/v1", "Plain") }

func TestAConditionOfTheSdksType(t *testing.T) {
	run := during(func(*windlass.Cluster) {
		plain := &Plain{}
		plain.Name = "a"
		for _, want := range []bool{true, false} {
			changed, err := windlass.SetCondition(plain, windlass.Condition{Type: "Ready", Status: windlass.False, Reason: "Waits"})
			if err != nil || changed != want || len(plain.Status.Conditions) != 1 {
				t.Errorf("got %v, %v, %v", changed, err, plain.Status)
			}
		}
	})
	if _, err := windlasstest.NewFleet(t).Cluster("alpha").Reconcile(run, site); err != nil {
		t.Error(err)
	}
}

func TestOwnersAndFinalizersOfStructs(t *testing.T) {
	owner, page := website(t, ""), &Page{}
	page.Name, page.Namespace = "site", "default"
	if err := page.SetController(owner); err != nil || page.OwnerReferences[0] != owner.ControllerReference(owner.GVK()) {
		t.Errorf("got %v, %v", page.OwnerReferences, err)
	}
	if err := page.SetOwner(owner); err != nil || len(page.OwnerReferences) != 1 {
		t.Errorf("got %v, %v", page.OwnerReferences, err)
	}
	page.Namespace = "other"
	if err := page.SetOwner(owner); !windlass.IsInvalid(err) {
		t.Errorf("got %v", err)
	}

	fleet := windlasstest.NewFleet(t)
	alpha := fleet.Cluster("alpha")
	alpha.Put(object(t, `{"apiVersion":"example.windlass.dev/v1","kind":"Website","metadata":{"name":"site","namespace":"default"},"spec":{"host":"a.b"}}`))
	cluster := alpha.Client()
	read, err := windlass.Get[Website](cluster, site)
	if err != nil {
		t.Fatal(err)
	}
	written, err := cluster.EnsureFinalizer(read, "a.b/c")
	if err != nil || !written.Changed() {
		t.Fatalf("got %v, %v", written, err)
	}
	next, err := windlass.As[Website](written.Object)
	if err != nil || !next.HasFinalizer("a.b/c") {
		t.Fatalf("got %v, %v", next, err)
	}
	if written, err = cluster.RemoveFinalizer(next, "a.b/c"); err != nil || !written.Changed() {
		t.Errorf("got %v, %v", written, err)
	}
}
