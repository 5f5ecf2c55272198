// Package httpclient lets net/http, and the libraries that use it, call servers through the host, within `spec.http` of the Reconciler.
//
//	client := &http.Client{Transport: httpclient.Transport{}}
//
// A program that imports this package has it below [http.DefaultTransport] and [http.DefaultClient] too, for libraries that take no client:
//
//	import _ "windlass.dev/windlass/httpclient"
//
// An http.Client follows redirects: each is a call that a rule must allow.
//
// net/http makes a component larger by 7 MB: [windlass.HTTPGet] and [windlass.HTTPDo] do without.
package httpclient

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"windlass.dev/windlass"
)

// Transport is an [http.RoundTripper] whose calls are the host's. A call waits for the whole answer, and nothing cancels it; the deadline of
// the request's context, and so [http.Client.Timeout], bounds it. A call that fails has a [*windlass.APIError].
type Transport struct{}

// connection are the headers that net/http gives meaning for a connection, which is the host's matter.
var connection = map[string]bool{
	"connection": true, "content-length": true, "expect": true, "host": true, "keep-alive": true, "te": true, "trailer": true,
	"transfer-encoding": true,
}

func init() {
	// Not another type: libraries clone it.
	shared, is := http.DefaultTransport.(*http.Transport)
	if !is {
		return
	}
	// HTTP/2 would take the scheme https for itself.
	shared.Protocols = new(http.Protocols)
	shared.Protocols.SetHTTP1(true)
	shared.RegisterProtocol("http", Transport{})
	shared.RegisterProtocol("https", Transport{})
}

// RoundTrip sends a request and waits for the answer.
func (Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	call, err := callOf(request)
	if err != nil {
		return nil, err
	}
	answer, err := windlass.HTTPDo(call)
	if err != nil {
		return nil, err
	}
	return responseOf(request, answer), nil
}

// callOf reads the request, and closes its body.
func callOf(request *http.Request) (windlass.HTTPRequest, error) {
	call := windlass.HTTPRequest{Method: request.Method, Header: windlass.HTTPHeader{}}
	if request.Body != nil {
		defer request.Body.Close()
	}
	if request.URL == nil {
		return call, fmt.Errorf("httpclient: the request has no URL")
	}
	if request.Host != "" && request.Host != request.URL.Host {
		return call, fmt.Errorf("httpclient: the host %q is not that of the URL, %q: the header Host cannot be set", request.Host, request.URL.Host)
	}
	if err := context.Cause(request.Context()); err != nil {
		return call, err
	}
	if deadline, bounded := request.Context().Deadline(); bounded {
		call.Timeout = time.Until(deadline)
		if call.Timeout <= 0 {
			return call, context.DeadlineExceeded
		}
	}
	// An http.Client has made a header of the user.
	url := *request.URL
	url.User, url.Fragment, url.RawFragment = nil, "", ""
	call.URL = url.String()
	for name, values := range request.Header {
		if !connection[strings.ToLower(name)] {
			call.Header[name] = values
		}
	}
	if request.Body == nil {
		return call, nil
	}
	body, err := io.ReadAll(request.Body)
	call.Body = body
	return call, err
}

func responseOf(request *http.Request, answer *windlass.HTTPResponse) *http.Response {
	response := &http.Response{
		Status:        strings.TrimSpace(fmt.Sprintf("%d %s", answer.Status, http.StatusText(answer.Status))),
		StatusCode:    answer.Status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{},
		Body:          io.NopCloser(bytes.NewReader(answer.Body)),
		ContentLength: int64(len(answer.Body)),
		Request:       request,
	}
	for name, values := range answer.Header {
		for _, value := range values {
			response.Header.Add(name, value)
		}
	}
	if request.Method == http.MethodHead {
		response.ContentLength = -1
		if length, err := strconv.ParseInt(response.Header.Get("Content-Length"), 10, 64); err == nil {
			response.ContentLength = length
		}
	}
	return response
}
