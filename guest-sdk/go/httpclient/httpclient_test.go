//go:build !wasip1

package httpclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"windlass.dev/windlass"
	"windlass.dev/windlass/httpclient"
	"windlass.dev/windlass/windlasstest"
)

const zone = "https://dns.example.com/v1/zones/a?x=%2F"

var client = &http.Client{Transport: httpclient.Transport{}}

// body records whether it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

func request(t *testing.T, method, target string, content io.Reader) *http.Request {
	t.Helper()
	made, err := http.NewRequest(method, target, content)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestAClientOfNetHTTPCallsThroughTheHost(t *testing.T) {
	var asked windlass.HTTPRequest
	windlasstest.NewFleet(t).Serve(func(request windlass.HTTPRequest) windlass.HTTPResponse {
		asked = request
		header := windlass.HTTPHeader{"etag": {"1"}, "set-cookie": {"a=b", "c=d"}}
		return windlass.HTTPResponse{Status: 201, Header: header, Body: []byte("made")}
	})
	sent := &body{Reader: strings.NewReader("{}")}
	made := request(t, "POST", strings.Replace(zone, "dns", "user:pass@dns", 1)+"#part", sent)
	made.Header.Set("X-A", "1")
	made.Header.Set("Connection", "close")
	answer, err := client.Do(made)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || string(text) != "made" || answer.Status != "201 Created" || answer.ContentLength != 4 || len(answer.Cookies()) != 2 {
		t.Errorf("got %s, %v, %v", text, err, answer)
	}
	if asked.Method != "POST" || asked.URL != zone || string(asked.Body) != "{}" || asked.Timeout != 0 || !sent.closed {
		t.Errorf("got %+v", asked)
	}
	if asked.Header.Get("x-a") != "1" || asked.Header.Get("connection") != "" || asked.Header.Get("authorization") != "Basic dXNlcjpwYXNz" {
		t.Errorf("got %v", asked.Header)
	}
}

func TestLibrariesThatTakeNoClientCallThroughTheHost(t *testing.T) {
	windlasstest.NewFleet(t).Serve(func(windlass.HTTPRequest) windlass.HTTPResponse { return windlass.HTTPResponse{Status: 404} })
	for _, target := range []string{zone, "http://dns.example.com/"} {
		answer, err := http.Get(target)
		if err != nil || answer.Status != "404 Not Found" {
			t.Fatal(answer, err)
		}
		_ = answer.Body.Close()
	}
}

func TestADeadlineOfTheContextIsTheTimeout(t *testing.T) {
	var asked windlass.HTTPRequest
	windlasstest.NewFleet(t).Serve(func(request windlass.HTTPRequest) windlass.HTTPResponse {
		asked = request
		return windlass.HTTPResponse{}
	})
	bounded, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := client.Do(request(t, "GET", zone, nil).WithContext(bounded)); err != nil {
		t.Fatal(err)
	}
	if asked.Timeout <= 50*time.Second || asked.Timeout > time.Minute {
		t.Error(asked.Timeout)
	}
	patient := &http.Client{Transport: httpclient.Transport{}, Timeout: time.Hour}
	if _, err := patient.Get(zone); err != nil || asked.Timeout <= time.Minute {
		t.Error(asked.Timeout, err)
	}
	asked = windlass.HTTPRequest{}
	late, end := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer end()
	if _, err := client.Do(request(t, "GET", zone, nil).WithContext(late)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	cancelled, stop := context.WithCancelCause(context.Background())
	gone := errors.New("gone")
	stop(gone)
	if _, err := client.Do(request(t, "GET", zone, nil).WithContext(cancelled)); !errors.Is(err, gone) || asked.URL != "" {
		t.Error(err, asked)
	}
}

func TestACallThatFailsHasTheErrorOfTheHost(t *testing.T) {
	windlasstest.NewFleet(t)
	_, err := client.Get(zone)
	var failed *url.Error
	if !windlass.IsDenied(err) || !errors.As(err, &failed) || failed.Timeout() {
		t.Error(err)
	}
	late := &url.Error{Op: "Get", URL: zone, Err: windlasstest.Error(windlass.CodeTimeout, "no answer")}
	if !late.Timeout() {
		t.Error("a timeout is none")
	}
}

func TestAnAnswerToHeadHasTheLengthOfItsHeader(t *testing.T) {
	windlasstest.NewFleet(t).Serve(func(windlass.HTTPRequest) windlass.HTTPResponse {
		return windlass.HTTPResponse{Header: windlass.HTTPHeader{"content-length": {"7"}}}
	})
	answer, err := client.Head(zone)
	if err != nil || answer.ContentLength != 7 {
		t.Error(answer, err)
	}
}

func TestARequestToAnotherHostThanThatOfItsURLIsRefused(t *testing.T) {
	windlasstest.NewFleet(t)
	content := &body{Reader: strings.NewReader("{}")}
	other := request(t, "PUT", zone, content)
	other.Host = "evil.example"
	if _, err := client.Do(other); err == nil || !strings.Contains(err.Error(), "the header Host cannot be set") || !content.closed {
		t.Error(err, content.closed)
	}
}

func TestAClientFollowsARedirectThatTheHostDoesNot(t *testing.T) {
	windlasstest.NewFleet(t).Serve(func(request windlass.HTTPRequest) windlass.HTTPResponse {
		if strings.HasSuffix(request.URL, "/new") {
			return windlass.HTTPResponse{Body: []byte("here")}
		}
		return windlass.HTTPResponse{Status: 302, Header: windlass.HTTPHeader{"location": {"/new"}}}
	})
	answer, err := client.Get(zone)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "here" || answer.Request.URL.Path != "/new" {
		t.Error(string(text), err)
	}
}
