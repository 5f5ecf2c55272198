//go:build !wasip1

package windlass

import (
	"log/slog"
	"sync"
)

// Host replaces the host in a test: package windlasstest has one. Only in native builds.
type Host interface {
	Config() string
	Now() string
	Log(level slog.Level, message string, fields []LogField)
	Clusters(labelSelector string) ([]ClusterInfo, error)
	Open(name string) (Backend, error)
	BatchAcross(clusters []string, operations []Operation) []Reply
	HTTP(request HTTPRequest) (*HTTPResponse, error)
}

var current struct {
	sync.Mutex
	host Host
}

// SetHost makes h the host until restore is called. [log/slog] writes to it.
func SetHost(h Host) (restore func()) {
	current.Lock()
	defer current.Unlock()
	before, logger := current.host, slog.Default()
	current.host = h
	slog.SetDefault(slog.New(handler{}))
	return func() {
		current.Lock()
		defer current.Unlock()
		current.host = before
		slog.SetDefault(logger)
	}
}

func host() Host {
	current.Lock()
	defer current.Unlock()
	if current.host == nil {
		panic("windlass: there is no host: start the test with windlasstest.New(t) or windlasstest.NewFleet(t)")
	}
	return current.host
}

func hostConfig() string { return host().Config() }
func hostNow() string    { return host().Now() }

func hostLog(level slog.Level, message string, fields []LogField) {
	host().Log(level, message, fields)
}

func hostClusters(labelSelector string) ([]ClusterInfo, error) { return host().Clusters(labelSelector) }
func hostOpen(name string) (Backend, error)                    { return host().Open(name) }

func hostHTTP(request HTTPRequest) (*HTTPResponse, error) { return host().HTTP(request) }

func hostBatchAcross(clusters []string, operations []Operation) []Reply {
	return host().BatchAcross(clusters, operations)
}
