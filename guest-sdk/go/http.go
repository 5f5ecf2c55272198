package windlass

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Servers that are no API servers. A guest that calls a function of this file needs a rule in `spec.http` of its Reconciler. Package
// httpclient is for libraries that use net/http.

// shownBytes is how much of an answer an error shows at most.
const shownBytes = 200

// HTTPRequest is a call of a server that is no API server, for [HTTPDo].
type HTTPRequest struct {
	// Method is GET, POST, …; "" is GET.
	Method string
	// URL is absolute.
	URL string
	// Header has names and values. Those that belong to the connection, as Host, cannot be set.
	Header HTTPHeader
	// Body is sent as it is; nil: none.
	Body []byte
	// JSON is sent as JSON, in place of Body and with its type; nil: none.
	JSON any
	// Timeout bounds the whole call. 0: 30 s, and 10 s, which is the most, for all but GET and HEAD.
	Timeout time.Duration
}

// HTTPResponse is an answer of any status.
type HTTPResponse struct {
	// Status is for example 200.
	Status int
	// Header has names, in lower case, and values.
	Header HTTPHeader
	// Body is all of it.
	Body []byte
}

// HTTPHeader has the values of headers, by their names, in which case does not matter.
type HTTPHeader map[string][]string

// HTTPStatusError is an answer that says that a call has failed: see [HTTPResponse.Success].
type HTTPStatusError struct {
	// Status is that of the answer.
	Status int
	// RetryAfter is when the server wants to be asked again; nil if it does not say so in seconds.
	RetryAfter *time.Duration

	shown string
}

// HTTPGet asks for a URL. The error is denied if no rule allows it, timeout or unavailable if no answer comes. A status is no error:
// see [HTTPResponse.Success].
func HTTPGet(url string) (*HTTPResponse, error) { return HTTPDo(HTTPRequest{URL: url}) }

// HTTPDo sends a request and waits for the answer. It fails as [HTTPGet]. After an error a call that changes something may have happened
// all the same.
func HTTPDo(request HTTPRequest) (*HTTPResponse, error) {
	if request.Method == "" {
		request.Method = "GET"
	}
	if request.JSON != nil {
		body, err := json.Marshal(request.JSON)
		if err != nil {
			return nil, unfit("encode", "the body of a request", err)
		}
		header := HTTPHeader{"content-type": {"application/json"}}
		for name, values := range request.Header {
			header.set(name, values)
		}
		request.Header, request.Body, request.JSON = header, body, nil
	}
	return hostHTTP(request)
}

// Success is nil for the statuses 2xx, and an [*HTTPStatusError] for others.
func (r *HTTPResponse) Success() error {
	if r.Status >= 200 && r.Status < 300 {
		return nil
	}
	shown := r.Body[:min(len(r.Body), shownBytes)]
	for len(shown) < len(r.Body) && len(shown) > 0 && !utf8.RuneStart(r.Body[len(shown)]) {
		shown = shown[:len(shown)-1]
	}
	failed := &HTTPStatusError{Status: r.Status, shown: strings.TrimSpace(wellFormed(string(shown)))}
	seconds, err := strconv.ParseUint(strings.TrimSpace(r.Header.Get("retry-after")), 10, 32)
	if err == nil {
		after := time.Duration(seconds) * time.Second
		failed.RetryAfter = &after
	}
	return failed
}

// JSON reads the body into a value.
func (r *HTTPResponse) JSON(into any) error {
	if err := json.Unmarshal(r.Body, into); err != nil {
		return fmt.Errorf("the answer cannot be read: %w", err)
	}
	return nil
}

// Error is for people. It has the beginning of the answer.
func (e *HTTPStatusError) Error() string {
	if e.shown == "" {
		return fmt.Sprintf("the server answers %d", e.Status)
	}
	return fmt.Sprintf("the server answers %d: %s", e.Status, e.shown)
}

// Get is the first value of a header; "" where there is none.
func (h HTTPHeader) Get(name string) string {
	for known, values := range h {
		if strings.EqualFold(known, name) && len(values) > 0 {
			return values[0]
		}
	}
	return ""
}

// Set makes this the only value of a header.
func (h HTTPHeader) Set(name, value string) { h.set(name, []string{value}) }

func (h HTTPHeader) set(name string, values []string) {
	for known := range h {
		if strings.EqualFold(known, name) {
			delete(h, known)
		}
	}
	h[name] = values
}

// pairs are names and values, in the order of the names: the same for every run.
func (h HTTPHeader) pairs() [][2]string {
	pairs := make([][2]string, 0, len(h))
	for name, values := range h {
		for _, value := range values {
			pairs = append(pairs, [2]string{name, value})
		}
	}
	slices.SortStableFunc(pairs, func(one, other [2]string) int { return strings.Compare(one[0], other[0]) })
	return pairs
}

// headerOf is the opposite of pairs.
func headerOf(pairs [][2]string) HTTPHeader {
	header := HTTPHeader{}
	for _, pair := range pairs {
		header[pair[0]] = append(header[pair[0]], pair[1])
	}
	return header
}

// timeoutMillis is the timeout of the contract; false: none.
func (r *HTTPRequest) timeoutMillis() (uint32, bool) {
	if r.Timeout <= 0 {
		return 0, false
	}
	millis := (r.Timeout + time.Millisecond - 1) / time.Millisecond
	return uint32(min(millis, math.MaxUint32)), true
}
