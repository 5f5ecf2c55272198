// Keeps records of DNS at an API outside of Kubernetes. A write is a PUT of the whole record, so that doing it twice is the same as once.
// The API's token is no matter of this guest: the operator has the host add it.
package main

import (
	"errors"
	"fmt"
	"time"

	"windlass.dev/windlass"
)

var dnsRecord = windlass.GVK("example.windlass.dev/v1", "DnsRecord")

const (
	// finalizer holds the object until its record is gone.
	finalizer = "dns.example.windlass.dev/record"
	// patience is how long to wait when the API asks for that without saying how long.
	patience = 10 * time.Second
)

// record is a record as the API has it.
type record struct {
	Address string `json:"address"`
}

type guest struct{}

func init() { windlass.Register(guest{}) }

func main() { windlass.Run() } // for `windlass dev --native`; a component is called by its exports

func (guest) Describe() (windlass.Description, error) {
	return windlass.Description{Title: "keeps records of DNS", Watches: []windlass.Watch{{Kind: dnsRecord}}}, nil
}

func (guest) Reconcile(req windlass.Request, cluster *windlass.Cluster) (done windlass.Result, err error) {
	wanted, err := cluster.Get(dnsRecord, req.ObjectKey)
	if err != nil || wanted == nil {
		return done, err
	}
	var config struct{ API string }
	if err := windlass.Config(&config); err != nil {
		return done, err
	}
	zone, name := wanted.String("spec", "zone"), wanted.String("spec", "name")
	url := fmt.Sprintf("%s/v1/zones/%s/records/%s", config.API, zone, name)
	// The URL of the status stays when the spec names another one, until that record is gone.
	before := wanted.String("status", "url")
	if before == "" {
		before = url
	}
	if wanted.Deleting() {
		if !wanted.HasFinalizer(finalizer) {
			return done, nil
		}
		if err := remove(before); err != nil {
			return done, err
		}
		_, err := cluster.RemoveFinalizer(wanted, finalizer)
		return done, err
	}
	// Before the record is written, so that its removal is never missed.
	if _, err := cluster.EnsureFinalizer(wanted, finalizer); err != nil {
		return done, err
	}
	if before != url {
		if err := remove(before); err != nil {
			return done, err
		}
	}
	if _, err := cluster.SetStatus(dnsRecord, req.ObjectKey, map[string]any{"url": url}); err != nil {
		return done, err
	}
	desired := record{wanted.String("spec", "address")}
	if there, err := read(url); err != nil || there != nil && *there == desired {
		return done, err
	}
	if err := settled(windlass.HTTPDo(windlass.HTTPRequest{Method: "PUT", URL: url, JSON: desired})); err != nil {
		return done, err
	}
	cluster.Event(wanted, "RecordWritten", fmt.Sprintf("%s.%s is %s", name, zone, desired.Address))
	return done, nil
}

// read is the record at the API; nil if there is none.
func read(url string) (*record, error) {
	answer, err := windlass.HTTPGet(url)
	if err == nil && answer.Status == 404 {
		return nil, nil
	}
	if err := settled(answer, err); err != nil {
		return nil, err
	}
	var there record
	return &there, answer.JSON(&there)
}

func remove(url string) error {
	answer, err := windlass.HTTPDo(windlass.HTTPRequest{Method: "DELETE", URL: url})
	if err == nil && answer.Status == 404 {
		return nil
	}
	return settled(answer, err)
}

// settled is nil for a call that did what it was to do. At the limit of the API the run ends, to go on when the API allows it.
func settled(answer *windlass.HTTPResponse, err error) error {
	if err == nil {
		err = answer.Success()
	}
	var refused *windlass.HTTPStatusError
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.Status {
	case 429:
		after := patience
		if refused.RetryAfter != nil {
			after = *refused.RetryAfter
		}
		return windlass.NotReady(after, "%v", refused)
	case 400, 422:
		return windlass.Terminal(err)
	}
	return err
}
