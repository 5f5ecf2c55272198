//go:build !wasip1

package windlasstest

import (
	"strings"
	"sync"

	"windlass.dev/windlass"
)

// servers are those that are no API servers.
type servers struct {
	lock   sync.Mutex
	answer func(windlass.HTTPRequest) windlass.HTTPResponse
}

// Serve answers what guests ask servers that are no API servers. Without this, every such call is denied. A request has a method, and a
// body in place of its JSON. A status of 0 is 200.
func (f *Fleet) Serve(answer func(windlass.HTTPRequest) windlass.HTTPResponse) {
	f.servers.serve(answer)
}

// Serve is as [Fleet.Serve].
func (s *Script) Serve(answer func(windlass.HTTPRequest) windlass.HTTPResponse) {
	s.servers.serve(answer)
}

func (h memoryHost) HTTP(request windlass.HTTPRequest) (*windlass.HTTPResponse, error) {
	return h.servers.ask(request)
}

func (h host) HTTP(request windlass.HTTPRequest) (*windlass.HTTPResponse, error) {
	return h.servers.ask(request)
}

func (s *servers) serve(answer func(windlass.HTTPRequest) windlass.HTTPResponse) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.answer = answer
}

// ask calls the answer without the lock, so that it may use the fleet.
func (s *servers) ask(request windlass.HTTPRequest) (*windlass.HTTPResponse, error) {
	s.lock.Lock()
	answer := s.answer
	s.lock.Unlock()
	if answer == nil {
		return nil, Error(windlass.CodeDenied, "this test has no answers for calls of servers: it gives them with Fleet.Serve or Script.Serve")
	}
	response := answer(request)
	if response.Status == 0 {
		response.Status = 200
	}
	header := windlass.HTTPHeader{}
	for name, values := range response.Header {
		name = strings.ToLower(name)
		header[name] = append(header[name], values...)
	}
	response.Header = header
	return &response, nil
}
