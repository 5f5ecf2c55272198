package main

import (
	"maps"
	"slices"
	"testing"
	"time"

	"windlass.dev/windlass"
	"windlass.dev/windlass/windlasstest"
)

var key = windlass.ObjectKey{Namespace: "default", Name: "www"}

func asked(name string) windlass.Object {
	object := windlass.NewObject(dnsRecord, key)
	object.Set(map[string]any{"zone": "example.com", "name": name, "address": "192.0.2.1"}, "spec")
	return object
}

func newFleet(t *testing.T) (*windlasstest.Fleet, *windlasstest.MemoryCluster) {
	fleet := windlasstest.NewFleet(t)
	fleet.Config(map[string]any{"api": "http://dns"})
	return fleet, fleet.Cluster("alpha")
}

func TestARecordIsWrittenOnceMovesAndGoes(t *testing.T) {
	fleet, alpha := newFleet(t)
	records := map[string]string{}
	fleet.Serve(func(request windlass.HTTPRequest) windlass.HTTPResponse {
		there, known := records[request.URL]
		switch {
		case request.Method == "PUT":
			records[request.URL] = string(request.Body)
		case !known:
			return windlass.HTTPResponse{Status: 404}
		case request.Method == "DELETE":
			delete(records, request.URL)
		}
		return windlass.HTTPResponse{Body: []byte(there)}
	})
	at := func(urls ...string) {
		t.Helper()
		if got := slices.Sorted(maps.Keys(records)); !slices.Equal(got, urls) {
			t.Errorf("got %v, want %v", got, urls)
		}
	}
	alpha.Put(asked("www"))
	alpha.ReconciledWrites(guest{}, key)
	at("http://dns/v1/zones/example.com/records/www")
	if writes := alpha.ReconciledWrites(guest{}, key); writes != 0 || len(alpha.Events()) != 1 {
		t.Errorf("%d writes, events %v", writes, alpha.Events())
	}
	alpha.Put(asked("web"))
	alpha.ReconciledWrites(guest{}, key)
	at("http://dns/v1/zones/example.com/records/web")
	alpha.Remove(dnsRecord, key)
	alpha.ReconciledWrites(guest{}, key)
	at()
	if object := alpha.Object(dnsRecord, key); object != nil {
		t.Errorf("got %v", object)
	}
}

func TestAtTheLimitOfTheAPIItWaitsAsLongAsTheAPISays(t *testing.T) {
	fleet, alpha := newFleet(t)
	fleet.Serve(func(windlass.HTTPRequest) windlass.HTTPResponse {
		return windlass.HTTPResponse{Status: 429, Header: windlass.HTTPHeader{"Retry-After": {"7"}}}
	})
	alpha.Put(asked("www"))
	if result, err := alpha.Reconcile(guest{}, key); err != nil || result.RequeueAfter != 7*time.Second {
		t.Errorf("got %v, %v", result, err)
	}
}
